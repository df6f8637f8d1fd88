//! What a running kernel can be stopped for.

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $code:literal, $help:literal;)*) => {
        /// Kind of a fault. Names and codes are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum FaultKind {
            $($(#[$doc])* $variant,)*
        }
        impl FaultKind {
            /// All kinds, in the order of their codes.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$variant),*];
            /// Stable name, such as `race-shared`.
            pub fn name(self) -> &'static str {
                match self { $(FaultKind::$variant => $name),* }
            }
            /// Stable code, such as `E0821`.
            pub fn code(self) -> &'static str {
                match self { $(FaultKind::$variant => $code),* }
            }
            /// What to change in the kernel.
            pub fn help(self) -> &'static str {
                match self { $(FaultKind::$variant => $help),* }
            }
        }
    };
}

kinds! {
    /// A global access touches bytes outside every allocation.
    OutOfBoundsGlobal = "out-of-bounds-global", "E0810", "mask the access or correct the address";
    /// A shared access touches bytes outside the block's shared memory.
    OutOfBoundsShared = "out-of-bounds-shared", "E0811", "correct the address or launch with more dynamic shared memory";
    /// A local access touches bytes outside the thread's local memory.
    OutOfBoundsLocal = "out-of-bounds-local", "E0812", "correct the index into the local array";
    /// A parameter is read outside the entry's parameters.
    OutOfBoundsParam = "out-of-bounds-param", "E0813", "correct the offset into the parameter";
    /// An address is not a multiple of the access size.
    Misaligned = "misaligned", "E0814", "align the address to the size of the access, vector included";
    /// An allocation is used after it was freed.
    UseAfterFree = "use-after-free", "E0815", "keep the allocation until the last kernel that uses it has run";
    /// Read-only memory is written.
    ReadOnlyWrite = "read-only-write", "E0816", "do not write constant memory";
    /// A shared byte is read before anything wrote it.
    UninitialisedShared = "uninitialised-shared", "E0817", "write the shared bytes before reading them, or mask the read";
    /// A global byte is read before the host or a kernel wrote it.
    UninitialisedGlobal = "uninitialised-global", "E0818", "write the buffer before the kernel reads it, or mask the read";
    /// Two threads of a block touch a shared byte, one of them writing, with nothing ordering them.
    RaceShared = "race-shared", "E0820", "put a barrier (bar.sync, or bar.warp.sync within a warp) between the two accesses";
    /// Two threads touch a global byte, one of them writing, with nothing ordering them.
    RaceGlobal = "race-global", "E0821", "give each thread its own bytes, use atomics, or order the accesses by a barrier or a second launch";
    /// Data of an asynchronous copy is read before the copy was waited for.
    AsyncCopyNotWaited = "async-copy-not-waited", "E0822", "wait with cp.async.wait_group or wait_all, then use a barrier before other threads read";
    /// Bytes that an asynchronous copy is still reading or writing are written.
    AsyncCopyOverwritten = "async-copy-overwritten", "E0823", "wait for the copy before writing to the bytes it fills";
    /// Bytes that `wgmma` or a bulk copy is still reading are written.
    AsyncReadOverwritten = "async-read-overwritten", "E0824", "wait with wgmma.wait_group or cp.async.bulk.wait_group.read, then use a barrier before other threads write";
    /// The asynchronous proxy reads or overwrites shared bytes that other instructions wrote, with no proxy fence between.
    ProxyFenceMissing = "proxy-fence-missing", "E0825", "execute fence.proxy.async after the writes, then a barrier, before wgmma or bulk copies touch the bytes";
    /// An aligned barrier is executed by a part of a warp, or with thread counts that disagree.
    BarrierDivergence = "barrier-divergence", "E0830", "let all threads of the warp execute the same barrier with the same thread count";
    /// Threads wait for something that can no longer happen.
    Deadlock = "deadlock", "E0831", "let every thread that a barrier counts arrive at it";
    /// A `.sync` instruction is executed by lanes outside its member mask, or not by all lanes in it.
    WarpSyncMask = "warp-sync-mask", "E0832", "give the mask of exactly the lanes that execute the instruction together";
    /// The launch executed more instructions than its budget.
    InstructionBudget = "instruction-budget", "E0833", "check the kernel for an endless loop, or raise the budget";
    /// The kernel executed `trap` or `brkpt`.
    Trap = "trap", "E0834", "find out why the kernel stopped itself";
    /// A value that the instruction does not accept, such as a barrier number above 15.
    InvalidOperand = "invalid-operand", "E0835", "give the instruction a value in its range";
    /// An address that belongs to no state space.
    InvalidAddress = "invalid-address", "E0836", "use an address of the state space that the instruction names";
    /// Shared bytes that hold no mbarrier are used as one.
    MbarrierUninitialised = "mbarrier-uninitialised", "E0840", "execute mbarrier.init, then a barrier, before other threads use it";
    /// An mbarrier is initialised twice, touched by other instructions, or waited for with a state of long ago.
    MbarrierMisuse = "mbarrier-misuse", "E0841", "leave the eight bytes to mbarrier instructions, invalidate them before another use, and wait for the current phase or the one before";
    /// More arrivals than are pending, or a count out of its range.
    MbarrierCount = "mbarrier-count", "E0842", "let each thread arrive once a phase, and initialise the mbarrier with as many arrivals";
    /// The bytes that copies brought and those that the phase expected differ.
    MbarrierTransaction = "mbarrier-transaction", "E0843", "let mbarrier.arrive.expect_tx name the bytes of all copies of the phase";
    /// `wgmma` uses registers that were accessed with no `wgmma.fence` since.
    WgmmaFenceMissing = "wgmma-fence-missing", "E0845", "execute wgmma.fence after the last access to accumulators and fragments and before the first wgmma.mma_async";
    /// Registers of a `wgmma` that is not waited for are accessed.
    WgmmaNotWaited = "wgmma-not-waited", "E0846", "execute wgmma.commit_group and wgmma.wait_group before touching the registers";
    /// The four warps of a warpgroup do not execute the same `wgmma`.
    WarpgroupDivergence = "warpgroup-divergence", "E0847", "let all four warps execute the same wgmma with the same descriptors";
    /// A tensor map that does not describe a tensor, or a copy that does not fit it.
    TensorMapInvalid = "tensor-map-invalid", "E0850", "set every field of the tensor map, and copy with as many coordinates as it has dimensions";
    /// A tensor map that the kernel wrote is used with no proxy fence since.
    TensorMapFenceMissing = "tensor-map-fence-missing", "E0851", "execute fence.proxy.tensormap::generic.acquire on the tensor map after it was written and before it is used";
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fault with its place: the thread, the instruction, and the source line where one is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// Name of the entry.
    pub entry: String,
    /// Line of the PTX source, from 1.
    pub line: u32,
    /// The instruction.
    pub instruction: String,
    /// Block index.
    pub block: [u32; 3],
    /// Thread index within the block.
    pub thread: [u32; 3],
    /// `.loc` position as `file:line:column`.
    pub location: Option<String>,
    /// The addresses, sizes or counts involved.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bx, by, bz] = self.block;
        let [tx, ty, tz] = self.thread;
        write!(
            f,
            "{}: {} (entry `{}`, line {}, `{}`, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz})",
            self.kind, self.detail, self.entry, self.line, self.instruction
        )?;
        if let Some(location) = &self.location {
            write!(f, ", at {location}")?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for Fault {}

/// A fault as instructions raise it, before its place is known.
#[derive(Debug)]
pub(crate) struct Trap {
    pub kind: FaultKind,
    pub lane: u32,
    pub detail: String,
}

impl Trap {
    #[cold]
    pub(crate) fn new(kind: FaultKind, lane: u32, detail: impl Into<String>) -> Box<Trap> {
        Box::new(Trap { kind, lane, detail: detail.into() })
    }
}
