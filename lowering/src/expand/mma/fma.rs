//! Products on CUDA cores: every thread computes its own elements of the accumulator, `k` in order.

use tenon_ir::Value;
use tenon_layout::TileLayout;
use tenon_tensor::DType;

use super::super::values::TileValues;
use super::super::{ExpandError, Expander};
use super::Registers;

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `c + a · b`, each step rounded once, in the accumulator's type; operands of narrower types are widened, which is exact.
    pub(super) fn fma(
        &mut self,
        a: &TileValues<'m>,
        b: &TileValues<'m>,
        c: &TileValues<'m>,
        depth: u32,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let accumulator = c.ty.element;
        self.check_threads(&a.ty.layout, &c.ty.layout, 0)?;
        self.check_threads(&b.ty.layout, &c.ty.layout, 1)?;
        let a_values = self.widen(a, accumulator)?;
        let b_values = self.widen(b, accumulator)?;
        let (a_registers, b_registers) = (Registers::new(&a.ty.layout), Registers::new(&b.ty.layout));
        let layout = &c.ty.layout;
        let at: Vec<_> = (0..layout.registers()).map(|register| layout.coordinates(register, 0, 0)).collect();
        let mut sums = c.registers.to_vec();
        for k in 0..depth {
            for (sum, at) in sums.iter_mut().zip(&at) {
                let (Some(left), Some(right)) = (a_registers.find(&[at[0], k]), b_registers.find(&[k, at[1]])) else {
                    return Err(self.misfit("a thread does not hold the rows and columns that its elements need"));
                };
                let (left, right) = (a_values[left], b_values[right]);
                *sum = if accumulator.is_float() {
                    self.pure("math.fma", &[left, right, *sum], sum.ty())?
                } else {
                    let product = self.binary("arith.muli", left, right)?;
                    self.binary("arith.addi", *sum, product)?
                };
            }
        }
        Ok(sums)
    }

    /// An operand must give each thread dimension `dim` as the accumulator does, and all of `k`.
    fn check_threads(&self, operand: &TileLayout, accumulator: &TileLayout, dim: usize) -> Result<(), ExpandError> {
        let alike = |operand: &[Vec<u32>], accumulator: &[Vec<u32>]| {
            operand.iter().zip(accumulator).all(|(o, a)| o[dim] == a[dim] && o[1 - dim] == 0)
        };
        if !alike(operand.lane_bases(), accumulator.lane_bases())
            || !alike(operand.warp_bases(), accumulator.warp_bases())
        {
            let name = if dim == 0 { "a" } else { "b" };
            return Err(self.misfit(format!("operand {name} does not lie as the accumulator's operand must")));
        }
        Ok(())
    }

    fn widen(&mut self, tile: &TileValues<'m>, to: DType) -> Result<Vec<Value<'m>>, ExpandError> {
        let from = tile.ty.element;
        if from == to {
            return Ok(tile.registers.to_vec());
        }
        let widens = from.is_float() == to.is_float() && from.bits() < to.bits();
        let number = |element: DType| element.is_float() || element.is_integer();
        if !widens || !number(from) || !number(to) || from == DType::Bool {
            return Err(self.element(format!("elements of {from} do not widen to {to}")));
        }
        let name = if from.is_float() { "arith.extf" } else { "arith.extsi" };
        let ty = self.register_type(to);
        tile.registers.iter().map(|value| self.pure(name, &[*value], ty)).collect()
    }
}
