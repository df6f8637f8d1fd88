//! The attributes that convolutions and pools share: kernel, strides, dilations, padding.

use tenon_graph_dialect::operators::{Pad, PadMode};
use tenon_graph_dialect::{Dim, DimExpr};

use crate::error::ImportError;
use crate::import::importer::Handle;
use crate::import::node::OpImport;

/// How the padding is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AutoPad {
    /// By the attribute `pads`.
    Explicit,
    /// Output size = input size / stride, rounded up; an odd cell goes to the end.
    SameUpper,
    /// The same; an odd cell goes to the begin.
    SameLower,
    /// None.
    Valid,
}

/// One entry a spatial dimension each.
pub(super) struct Geometry {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    pub(super) auto_pad: AutoPad,
    /// What `pads` says: begins.
    pub(super) begin: Vec<i64>,
    /// Ends.
    pub(super) end: Vec<i64>,
    /// Dimensions whose SAME padding depends on a free size: begin and end.
    pub(super) free: Vec<(usize, DimExpr, DimExpr)>,
}

/// Largest kernel, stride, dilation or padding.
const MAX_ENTRY: i64 = 1 << 31;

impl Geometry {
    /// Reads the attributes of a window over the dimensions of `input` after the first two. `kernel` is the weight's, where there is one.
    pub(super) fn read(
        op: &OpImport<'_, '_, '_>,
        input: Handle,
        kernel: Option<Vec<i64>>,
        dilated: bool,
    ) -> Result<Geometry, ImportError> {
        let spatial = op.rank_at_least(input, 3)? - 2;
        let list = |name: &'static str, least: i64| -> Result<Option<Vec<i64>>, ImportError> {
            let Some(list) = op.node.ints(name)? else { return Ok(None) };
            if list.len() != spatial || list.iter().any(|entry| !(least..=MAX_ENTRY).contains(entry)) {
                let found = format!("is {list:?} for {spatial} spatial dimensions");
                return Err(op.node.attribute_error(name, "one positive number a spatial dimension", found));
            }
            Ok(Some(list.to_vec()))
        };
        let declared = list("kernel_shape", 1)?;
        let kernel = match (kernel, declared) {
            (Some(kernel), Some(declared)) if kernel != declared => {
                return Err(op.node.attribute_error("kernel_shape", "that of the weight", format!("is {declared:?}")));
            }
            (kernel, declared) => op.node.required("kernel_shape", kernel.or(declared))?,
        };
        let ones = || vec![1; spatial];
        let strides = list("strides", 1)?.unwrap_or_else(ones);
        let dilations = if dilated { list("dilations", 1)? } else { None }.unwrap_or_else(ones);
        let auto_pad = match op.node.string_or("auto_pad", "NOTSET")? {
            "NOTSET" | "" => AutoPad::Explicit,
            "SAME_UPPER" => AutoPad::SameUpper,
            "SAME_LOWER" => AutoPad::SameLower,
            "VALID" => AutoPad::Valid,
            other => {
                return Err(op.node.attribute_error(
                    "auto_pad",
                    "NOTSET, SAME_UPPER, SAME_LOWER or VALID",
                    format!("is {other:?}"),
                ));
            }
        };
        let pads = op.node.ints("pads")?.map_or_else(|| vec![0; 2 * spatial], <[i64]>::to_vec);
        if pads.len() != 2 * spatial || pads.iter().any(|pad| pad.unsigned_abs() > MAX_ENTRY as u64) {
            return Err(op.node.attribute_error(
                "pads",
                "a begin and an end for each spatial dimension",
                format!("is {pads:?}"),
            ));
        }
        let (begin, end) = match auto_pad {
            AutoPad::Explicit => (pads[..spatial].to_vec(), pads[spatial..].to_vec()),
            _ => (vec![0; spatial], vec![0; spatial]),
        };
        Ok(Geometry { kernel, strides, dilations, auto_pad, begin, end, free: Vec::new() })
    }

    /// Cells that a window reaches over.
    pub(super) fn reach(&self, index: usize) -> i64 {
        // At most 2⁶², by the limit on entries.
        self.dilations[index] * (self.kernel[index] - 1) + 1
    }

    /// Pads a value by what `resolve` found to depend on free sizes.
    pub(super) fn pad_free(&self, op: &mut OpImport<'_, '_, '_>, x: Handle, value: f64) -> Result<Handle, ImportError> {
        if self.free.is_empty() {
            return Ok(x);
        }
        let none = || vec![DimExpr::constant(0); self.kernel.len() + 2];
        let (mut low, mut high) = (none(), none());
        for (index, begin, end) in &self.free {
            low[index + 2] = begin.clone();
            high[index + 2] = end.clone();
        }
        let value = op.scalar(value, op.dtype(x))?;
        op.emit(Pad { mode: PadMode::Constant, low, high }, &[x, value])
    }

    /// Pads a value by all padding, so that none is left, with a scalar of its type.
    pub(super) fn pad_all(
        &mut self,
        op: &mut OpImport<'_, '_, '_>,
        x: Handle,
        value: Handle,
    ) -> Result<Handle, ImportError> {
        let rank = self.kernel.len() + 2;
        let mut low = vec![DimExpr::constant(0); rank];
        let mut high = low.clone();
        for index in 0..self.kernel.len() {
            low[index + 2] = DimExpr::constant(std::mem::take(&mut self.begin[index]));
            high[index + 2] = DimExpr::constant(std::mem::take(&mut self.end[index]));
        }
        for (index, begin, end) in self.free.drain(..) {
            low[index + 2] = begin;
            high[index + 2] = end;
        }
        let is_none = |sizes: &[DimExpr]| sizes.iter().all(|size| size.as_constant() == Some(0));
        if is_none(&low) && is_none(&high) {
            return Ok(x);
        }
        op.emit(Pad { mode: PadMode::Constant, low, high }, &[x, value])
    }

    /// Resolves SAME padding for the spatial dimensions of an input.
    pub(super) fn resolve(&mut self, op: &OpImport<'_, '_, '_>, dims: &[Dim]) -> Result<(), ImportError> {
        if !matches!(self.auto_pad, AutoPad::SameUpper | AutoPad::SameLower) {
            return Ok(());
        }
        for (index, dim) in dims.iter().enumerate() {
            let (stride, reach) = (self.strides[index], self.reach(index));
            let total = match (stride, dim.known().and_then(|size| i64::try_from(size).ok())) {
                (1, _) => reach - 1,
                (_, Some(size)) => {
                    let outputs = size / stride + i64::from(size % stride != 0);
                    let span = (outputs - 1).checked_mul(stride).and_then(|span| span.checked_add(reach));
                    span.map(|span| (span - size).max(0)).ok_or_else(|| op.invalid("the padding is too large"))?
                }
                (_, None) => {
                    let pads = free_padding(&dim.extent, stride, reach, self.auto_pad);
                    let (begin, end) =
                        pads.ok_or_else(|| op.unsupported(format!("SAME padding over the dimension {}", dim.extent)))?;
                    self.free.push((index, begin, end));
                    continue;
                }
            };
            (self.begin[index], self.end[index]) = split(total, self.auto_pad);
        }
        Ok(())
    }
}

/// Begin and end of SAME padding as expressions over the size.
fn free_padding(size: &DimExpr, stride: i64, reach: i64, auto_pad: AutoPad) -> Option<(DimExpr, DimExpr)> {
    let number = DimExpr::constant;
    let outputs = size.add(&number(stride - 1))?.floor_div(stride)?;
    let span = outputs.sub(&number(1))?.mul(&number(stride))?.add(&number(reach))?;
    let mut total = span.sub(size)?;
    if reach < stride {
        total = total.maximum(&number(0))?;
    }
    let small = total.floor_div(2)?;
    let large = total.sub(&small)?;
    Some(if auto_pad == AutoPad::SameLower { (large, small) } else { (small, large) })
}

/// Begin and end of a total padding.
pub(super) fn split(total: i64, auto_pad: AutoPad) -> (i64, i64) {
    let small = total / 2;
    if auto_pad == AutoPad::SameLower { (total - small, small) } else { (small, total - small) }
}
