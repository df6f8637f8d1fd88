//! Building pipelines between a producer and the warps that compute: barriers in shared memory, copies by tensor maps, products by warpgroups.

use tenon_ir::Value;
use tenon_layout::SharedLayout;
use tenon_tensor::DType;

use crate::{HwError, Shared, SharedType, Tile, TileBuilder, TileType};

/// Barriers in shared memory that count arrivals.
#[derive(Clone, Copy)]
pub struct Mbarriers<'m> {
    /// The value.
    pub value: Value<'m>,
    /// How many there are.
    pub count: u32,
}

/// The left operand of a product by warpgroups.
#[derive(Clone, Copy)]
pub enum WarpgroupOperand<'o, 'm> {
    /// A slot of shared memory.
    Shared(&'o Shared<'m>, Value<'m>),
    /// Registers, in the layout of [`tenon_layout::wgmma_operand_a`].
    Registers(&'o Tile<'m>),
}

impl<'m> TileBuilder<'m> {
    /// Shared memory that starts at a multiple of `alignment` bytes.
    pub fn alloc_aligned(
        self,
        slots: u32,
        element: DType,
        layout: SharedLayout,
        alignment: u32,
    ) -> Result<Shared<'m>, HwError> {
        let ty = SharedType { slots, element, layout };
        let context = self.builder().context();
        let op = self.builder().op("hw.alloc").attribute("alignment", context.i64(i64::from(alignment)));
        let value = op.results(&[ty.to_type(context)?]).value()?;
        Ok(Shared { value, ty })
    }

    /// Says that no warp uses shared memory any more.
    pub fn dealloc(self, shared: &Shared<'m>) -> Result<(), HwError> {
        self.builder().op("hw.dealloc").operands(&[shared.value]).build()?;
        Ok(())
    }

    /// Barriers that each complete a phase by so many arrivals, for use after [`Self::barrier`].
    pub fn mbarriers(self, count: u32, arrivals: u32) -> Result<Mbarriers<'m>, HwError> {
        let context = self.builder().context();
        let ty = context.parse_type(&format!("!hw.mbarriers<{count}>"))?;
        let op = self.builder().op("hw.mbarrier_alloc").attribute("arrivals", context.i64(i64::from(arrivals)));
        Ok(Mbarriers { value: op.results(&[ty]).value()?, count })
    }

    /// An arrival of this thread that expects so many bytes of copies.
    pub fn mbarrier_expect(self, barriers: &Mbarriers<'m>, slot: Value<'m>, bytes: u64) -> Result<(), HwError> {
        let bytes = self.builder().context().i64(bytes as i64);
        let op = self.builder().op("hw.mbarrier_expect").operands(&[barriers.value, slot]);
        op.attribute("bytes", bytes).build()?;
        Ok(())
    }

    /// An arrival of each warp.
    pub fn mbarrier_arrive(self, barriers: &Mbarriers<'m>, slot: Value<'m>) -> Result<(), HwError> {
        self.builder().op("hw.mbarrier_arrive").operands(&[barriers.value, slot]).build()?;
        Ok(())
    }

    /// Waits for the phase of a parity.
    pub fn mbarrier_wait(self, barriers: &Mbarriers<'m>, slot: Value<'m>, parity: Value<'m>) -> Result<(), HwError> {
        self.builder().op("hw.mbarrier_wait").operands(&[barriers.value, slot, parity]).build()?;
        Ok(())
    }

    /// Copies boxes of a tensor, from coordinates on, innermost first, to a slot; their bytes count at the barrier of the slot.
    pub fn tma_load(
        self,
        map: Value<'m>,
        coordinates: &[Value<'m>],
        shared: &Shared<'m>,
        slot: Value<'m>,
        barriers: &Mbarriers<'m>,
    ) -> Result<(), HwError> {
        let op = self.builder().op("hw.tma_load").operands(&[map]).operands(coordinates);
        op.operands(&[shared.value, slot, barriers.value]).build()?;
        Ok(())
    }

    /// `a · b + c` by warpgroups, of a slot of `b`; `instruction` is a row of the matrix-instruction table.
    pub fn wgmma(
        self,
        instruction: &str,
        a: WarpgroupOperand<'_, 'm>,
        b: (&Shared<'m>, Value<'m>),
        c: &Tile<'m>,
    ) -> Result<Tile<'m>, HwError> {
        self.warpgroup_product(instruction, a, b, Some(c), &c.ty)
    }

    /// `a · b` by warpgroups, a tile of type `ty`.
    pub fn wgmma_product(
        self,
        instruction: &str,
        a: WarpgroupOperand<'_, 'm>,
        b: (&Shared<'m>, Value<'m>),
        ty: &TileType,
    ) -> Result<Tile<'m>, HwError> {
        self.warpgroup_product(instruction, a, b, None, ty)
    }

    fn warpgroup_product(
        self,
        instruction: &str,
        a: WarpgroupOperand<'_, 'm>,
        (b, b_slot): (&Shared<'m>, Value<'m>),
        c: Option<&Tile<'m>>,
        ty: &TileType,
    ) -> Result<Tile<'m>, HwError> {
        let context = self.builder().context();
        let (mut operands, a_slots) = match a {
            WarpgroupOperand::Shared(shared, slot) => (vec![shared.value, slot], 1),
            WarpgroupOperand::Registers(tile) => (vec![tile.value], 0),
        };
        operands.extend([b.value, b_slot]);
        operands.extend(c.map(|c| c.value));
        let value = self
            .builder()
            .op("hw.wgmma")
            .operands(&operands)
            .segments(&[1, a_slots, 1, 1, i32::from(c.is_some())])
            .attribute("instruction", context.string(instruction))
            .results(&[ty.to_type(context)?])
            .value()?;
        Ok(Tile { value, ty: ty.clone() })
    }

    /// Code of one thread of the producer warps.
    pub fn producer(self, body: impl FnOnce(TileBuilder<'m>) -> Result<(), HwError>) -> Result<(), HwError> {
        let op = self.builder().op("hw.producer").regions(1).build()?;
        let region = op.region(0).ok_or_else(|| HwError::semantic("hw.producer", "has no region"))?;
        body(TileBuilder::new(self.builder().in_block(region.append_block(&[])?)))
    }
}
