//! Tiles made of coordinates and scalars, and the renaming of registers.

use tenon_ir::{Op, Value};
use tenon_layout::{Conversion, TileLayout};
use tenon_tensor::DType;

use super::{ExpandError, Expander};

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.iota`: the thread's part, once a kernel, combined with the constant of each register.
    pub(super) fn iota(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let ty = self.result_type(op, 0)?;
        let dimension = op.integer("dimension").and_then(|d| usize::try_from(d).ok());
        let Some(dimension) = dimension.filter(|d| *d < ty.layout.rank()) else {
            return Err(self.malformed("the tile has no such dimension"));
        };
        if ty.element != DType::I32 {
            return Err(self.element("the coordinates of a tile are i32"));
        }
        let component = |bases: &[Vec<u32>]| bases.iter().map(|basis| basis[dimension]).collect::<Vec<_>>();
        let (lanes, warps) = (component(ty.layout.lane_bases()), component(ty.layout.warp_bases()));
        let thread = self.linear(&lanes, &warps)?;
        let thread_bits = ty.layout.thread_bits()[dimension];
        let context = self.at.context();
        let mut made: Vec<(u32, Value<'m>)> = Vec::new();
        let mut registers = Vec::new();
        for register in 0..ty.layout.registers() {
            let constant = ty.layout.coordinates(register, 0, 0)[dimension];
            if let Some((_, value)) = made.iter().find(|(c, _)| *c == constant) {
                registers.push(*value);
                continue;
            }
            let value = match thread {
                None => self.i32(i64::from(constant))?,
                Some(thread) if constant == 0 => thread,
                Some(thread) => {
                    let operand = self.i32(i64::from(constant))?;
                    if constant & thread_bits == 0 {
                        // No carry, no overflow: addresses may fold the constant.
                        self.at
                            .op("arith.addi")
                            .attribute("overflowFlags", context.parse_attribute("#arith.overflow<nsw, nuw>")?)
                            .operands(&[thread, operand])
                            .results(&[context.i32_type()])
                            .value()?
                    } else {
                        self.binary("arith.xori", thread, operand)?
                    }
                }
            };
            made.push((constant, value));
            registers.push(value);
        }
        self.set_tile(op, 0, registers)
    }

    /// `hw.splat`.
    pub(super) fn splat(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let ty = self.result_type(op, 0)?;
        let value = self.scalar(op, 0)?;
        if value.ty() != self.register_type(ty.element) {
            return Err(self.malformed(format!("a scalar `{}` in a tile of {}", value.ty(), ty.element)));
        }
        self.set_tile(op, 0, vec![value; ty.layout.registers() as usize])
    }

    /// `hw.expand_dims`.
    pub(super) fn expand_dims(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let tile = self.tile(op, 0)?;
        let dimension = op.integer("dimension").and_then(|d| usize::try_from(d).ok());
        let dimension = dimension.ok_or_else(|| self.malformed("the dimension is negative"))?;
        let expanded = self.fit(tile.ty.layout.expand_dim(dimension))?;
        self.rename(op, &expanded, &tile.registers, None)
    }

    /// `hw.transpose`.
    pub(super) fn transpose(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let tile = self.tile(op, 0)?;
        let permutation = op.attribute("permutation").and_then(|p| p.as_i64_array()).unwrap_or_default();
        let permutation: Vec<usize> = permutation.iter().map(|&d| usize::try_from(d).unwrap_or(usize::MAX)).collect();
        let transposed = self.fit(tile.ty.layout.transpose(&permutation))?;
        self.rename(op, &transposed, &tile.registers, None)
    }

    /// `hw.broadcast`: the tile must lie where the projection of the result's layout says.
    pub(super) fn broadcast(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let tile = self.tile(op, 0)?;
        let result = self.result_type(op, 0)?;
        let projection = self.fit(result.layout.project(tile.ty.shape()))?;
        self.rename(op, &tile.ty.layout, &tile.registers, Some(&projection))
    }

    /// The registers of the result from those of a tile in layout `source`; `target` stands for the result's layout.
    fn rename(
        &mut self,
        op: Op<'k>,
        source: &TileLayout,
        values: &[Value<'m>],
        target: Option<&TileLayout>,
    ) -> Result<(), ExpandError> {
        let result = self.result_type(op, 0)?;
        let target = target.unwrap_or(&result.layout);
        let registers = match self.fit(Conversion::between(source, target, 4))? {
            Conversion::Identity => values.to_vec(),
            Conversion::PermuteRegisters { registers } => {
                registers.iter().filter_map(|&register| values.get(register as usize).copied()).collect()
            }
            _ => {
                let reason = format!("data would have to move: the tile lies in {source}, the result wants {target}");
                return Err(self.misfit(reason));
            }
        };
        self.set_tile(op, 0, registers)
    }
}
