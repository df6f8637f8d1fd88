//! `hw.mma` and `hw.wgmma`: products of tiles on CUDA cores or by matrix instructions.

mod fma;
mod tensor;
mod wgmma;

use tenon_ir::{Op, Value};
use tenon_layout::{Span, TileLayout};

use super::{ExpandError, Expander};

/// Finds the register that holds an element, given what registers add to its coordinates.
struct Registers<'a> {
    layout: &'a TileLayout,
    span: Span,
}

impl<'a> Registers<'a> {
    fn new(layout: &'a TileLayout) -> Self {
        let columns: Vec<_> = layout.register_bases().iter().map(|basis| u64::from(layout.flatten(basis))).collect();
        Registers { layout, span: Span::of(&columns) }
    }

    fn find(&self, coordinates: &[u32]) -> Option<usize> {
        self.span.express(u64::from(self.layout.flatten(coordinates))).map(|register| register as usize)
    }
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.mma`.
    pub(super) fn mma(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let name = op.string("instruction").unwrap_or_default();
        let (a, b, c) = (self.tile(op, 0)?, self.tile(op, 1)?, self.tile(op, 2)?);
        let result = self.result_type(op, 0)?;
        if *result != *c.ty {
            return Err(self.misfit("the result is not of the accumulator's type"));
        }
        let ([m, k], [k2, n], [m2, n2]) =
            (self.matrix(a.ty.shape())?, self.matrix(b.ty.shape())?, self.matrix(c.ty.shape())?);
        if k != k2 || m != m2 || n != n2 {
            return Err(self.misfit(format!("[{m}, {k}] · [{k2}, {n}] + [{m2}, {n2}] is no product")));
        }
        let registers: Vec<Value<'m>> = match name.as_str() {
            "fma" => self.fma(&a, &b, &c, k)?,
            _ => self.tensor_core(&name, &a, &b, &c)?,
        };
        self.set_tile(op, 0, registers)
    }

    fn matrix(&self, shape: &[u32]) -> Result<[u32; 2], ExpandError> {
        <[u32; 2]>::try_from(shape).map_err(|_| self.misfit(format!("{shape:?} is no matrix")))
    }
}
