//! Shared memory: where allocations lie, and addresses in it.

use std::collections::HashMap;

use tenon_hw_dialect::{SharedType, read_mbarriers};
use tenon_ir::{Builder, Op, Value};

use super::values::Lowered;
use super::{ExpandError, Expander};

/// Every allocation starts at a multiple of this.
const ALIGNMENT: u64 = 128;
/// The most that an allocation may ask for: what the widest swizzle needs.
const MOST_ALIGNMENT: u64 = 1024;
/// Bytes of a barrier.
pub(super) const MBARRIER_BYTES: u32 = 8;

/// A range of shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SharedTile {
    /// Where it starts, in bytes.
    pub(super) start: u64,
    pub(super) ty: SharedType,
}

impl SharedTile {
    /// Bytes of a slot.
    pub(super) fn slot_bytes(&self) -> u64 {
        self.ty.bytes() / u64::from(self.ty.slots.max(1))
    }
}

/// What a kernel uses of shared memory.
pub(super) struct SharedMemory<'m> {
    /// Before the function: where the symbol goes.
    outside: Option<Builder<'m>>,
    base: Option<Value<'m>>,
    /// End of what has been allocated.
    allocated: u64,
    /// Start of the area that conversions and reductions take turns in: the end of all allocations.
    scratch: u64,
    scratch_bytes: u64,
    /// Whether a thread may still read the area.
    pub(super) scratch_in_use: bool,
    /// Allocations that are not used any more, by start and end, in order.
    freed: Vec<[u64; 2]>,
    /// What the start of all is a multiple of.
    alignment: u64,
}

/// Bytes of an allocation, and what its start must be a multiple of; `None` of other operations.
fn allocation(op: Op<'_>) -> Result<Option<[u64; 2]>, ExpandError> {
    let Some(result) = op.result(0) else { return Ok(None) };
    if op.is("hw.mbarrier_alloc") {
        return Ok(Some([u64::from(read_mbarriers(result.ty())?) * u64::from(MBARRIER_BYTES), ALIGNMENT]));
    }
    if !op.is("hw.alloc") {
        return Ok(None);
    }
    let alignment = op.integer("alignment").and_then(|alignment| u64::try_from(alignment).ok()).unwrap_or(ALIGNMENT);
    Ok(Some([SharedType::read(result.ty())?.bytes(), alignment]))
}

/// Start and end of an allocation behind `end`.
fn placed(end: u64, [bytes, alignment]: [u64; 2]) -> [u64; 2] {
    let start = end.checked_next_multiple_of(alignment.max(1)).unwrap_or(u64::MAX);
    [start, start.saturating_add(aligned(bytes))]
}

fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

impl<'m> SharedMemory<'m> {
    /// Of a kernel, all of whose allocations are counted.
    pub(super) fn new(kernel: Op<'_>, outside: Option<Builder<'m>>) -> Result<Self, ExpandError> {
        let (mut scratch, mut most) = (0u64, ALIGNMENT);
        for op in kernel.walk() {
            if let Some([bytes, alignment]) = allocation(op)? {
                scratch = placed(scratch, [bytes, alignment])[1];
                most = most.max(alignment);
            }
        }
        Ok(SharedMemory {
            outside,
            base: None,
            allocated: 0,
            scratch,
            scratch_bytes: 0,
            scratch_in_use: false,
            freed: Vec::new(),
            alignment: most,
        })
    }

    /// Bytes that a launch must give.
    pub(super) fn total(&self) -> u64 {
        self.scratch.saturating_add(self.scratch_bytes)
    }
}

/// An address in shared memory: the xor of what the bits of lane and warp add, in bytes.
pub(super) struct Address<'m> {
    base: Value<'m>,
    lanes: Vec<u32>,
    warps: Vec<u32>,
    made: HashMap<u32, Value<'m>>,
}

impl<'m> Address<'m> {
    /// Places at `base`, whose offsets are given in elements of `bytes`.
    pub(super) fn new(base: Value<'m>, lanes: &[u32], warps: &[u32], bytes: u32) -> Self {
        let scaled = |list: &[u32]| list.iter().map(|offset| offset * bytes).collect();
        Address { base, lanes: scaled(lanes), warps: scaled(warps), made: HashMap::new() }
    }
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// `hw.alloc`.
    pub(super) fn alloc(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let result = op.result(0).ok_or_else(|| self.malformed("it has no result"))?;
        let ty = SharedType::read(result.ty())?;
        self.stored(ty.element)?;
        let start = self.allocate(op)?;
        self.set(op, 0, Lowered::Shared(SharedTile { start, ty }.into()))
    }

    /// Refuses slots that do not start where the pattern of the widest swizzle does.
    pub(super) fn check_pattern(&self, shared: &SharedTile) -> Result<(), ExpandError> {
        let is_whole = |bytes: u64| bytes.is_multiple_of(MOST_ALIGNMENT);
        if is_whole(shared.start) && is_whole(shared.slot_bytes()) && is_whole(self.shared.alignment) {
            return Ok(());
        }
        Err(self.misfit(format!("slots of shared memory do not start at multiples of {MOST_ALIGNMENT} bytes")))
    }

    /// Where an allocation starts.
    pub(super) fn allocate(&mut self, op: Op<'k>) -> Result<u64, ExpandError> {
        let wanted = allocation(op)?.ok_or_else(|| self.malformed("it allocates nothing"))?;
        if !wanted[1].is_power_of_two() || wanted[1] > MOST_ALIGNMENT {
            return Err(self.malformed(format!("an alignment of {} bytes", wanted[1])));
        }
        let [start, end] = placed(self.shared.allocated, wanted);
        self.shared.allocated = end;
        self.check_shared()?;
        Ok(start)
    }

    /// `hw.dealloc`.
    pub(super) fn dealloc(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let shared = self.shared_tile(op, 0)?;
        let end = shared.start.saturating_add(aligned(shared.ty.bytes()));
        let freed = &mut self.shared.freed;
        freed.push([shared.start, end]);
        freed.sort_unstable();
        freed.dedup_by(|next, before| {
            let joins = next[0] <= before[1];
            if joins {
                before[1] = before[1].max(next[1]);
            }
            joins
        });
        // Warps may still read what is freed.
        self.shared.scratch_in_use = true;
        Ok(())
    }

    /// Refuses what no block can have, before addresses overflow.
    fn check_shared(&self) -> Result<(), ExpandError> {
        let (bytes, limit) = (self.shared.total(), self.target.shared_bytes);
        if bytes > limit {
            return Err(ExpandError::SharedMemory { kernel: self.kernel.clone(), bytes, limit });
        }
        Ok(())
    }

    /// Start of a part of the area for conversions and reductions; `offset` is within it.
    pub(super) fn scratch(&mut self, offset: u64, bytes: u64) -> Result<Value<'m>, ExpandError> {
        if let Some([start, _]) = self.shared.freed.iter().find(|[start, end]| offset + bytes <= end - start) {
            return self.shared_address(start + offset);
        }
        self.shared.scratch_bytes = self.shared.scratch_bytes.max(offset + bytes);
        self.check_shared()?;
        let start = self.shared.scratch + offset;
        self.shared_address(start)
    }

    /// Pads the size of a part, so that the next starts aligned.
    pub(super) fn scratch_size(bytes: u32) -> u64 {
        aligned(u64::from(bytes))
    }

    pub(super) fn shared_address(&mut self, start: u64) -> Result<Value<'m>, ExpandError> {
        let base = self.shared_base()?;
        self.pointer_offset(base, start as u32)
    }

    fn shared_base(&mut self) -> Result<Value<'m>, ExpandError> {
        if let Some(base) = self.shared.base {
            return Ok(base);
        }
        let name = format!("{}_shared", self.kernel);
        let context = self.at.context();
        let outside = self.shared.outside.ok_or_else(|| self.malformed("there is no place for shared memory"))?;
        outside
            .op("llvm.mlir.global")
            .attribute("sym_name", context.string(&name))
            .attribute("global_type", context.type_attribute(context.parse_type("!llvm.array<0 x i8>")?))
            .attribute("linkage", context.parse_attribute("#llvm.linkage<external>")?)
            .attribute("addr_space", context.i32(3))
            .attribute("alignment", context.i64(self.shared.alignment as i64))
            .regions(1)
            .build()?;
        let base = self
            .prologue()
            .op("llvm.mlir.addressof")
            .attribute("global_name", context.symbol(&name))
            .results(&[context.pointer_type(3)])
            .value()?;
        self.shared.base = Some(base);
        Ok(base)
    }

    /// Start of a slot.
    pub(super) fn slot(&mut self, shared: &SharedTile, slot: Value<'m>) -> Result<Value<'m>, ExpandError> {
        let context = self.at.context();
        if slot.ty() != context.i32_type() {
            return Err(self.malformed(format!("the slot is `{}`, not `i32`", slot.ty())));
        }
        let start = self.shared_address(shared.start)?;
        if shared.ty.slots <= 1 {
            return Ok(start);
        }
        let bytes = self.i32(shared.slot_bytes() as i64)?;
        let offset = self.binary("arith.muli", slot, bytes)?;
        self.pointer_add(start, offset, context.integer_type(8))
    }

    /// The address of a place: the thread's part xor a constant, given in bytes.
    pub(super) fn place(&mut self, address: &mut Address<'m>, constant: u32) -> Result<Value<'m>, ExpandError> {
        let thread_bits = address.lanes.iter().chain(&address.warps).fold(0, |bits, offset| bits | offset);
        // What no thread's part touches is added, so that it becomes an immediate.
        let (mixed, added) = (constant & thread_bits, constant & !thread_bits);
        let start = match address.made.get(&mixed) {
            Some(made) => *made,
            None => {
                let made = match self.linear(&address.lanes, &address.warps)? {
                    None => address.base,
                    Some(thread) => {
                        let index = if mixed == 0 {
                            thread
                        } else {
                            let mixed = self.i32(i64::from(mixed))?;
                            self.binary("arith.xori", thread, mixed)?
                        };
                        self.pointer_add(address.base, index, self.at.context().integer_type(8))?
                    }
                };
                address.made.insert(mixed, made);
                made
            }
        };
        self.pointer_offset(start, added)
    }
}
