//! Tile programs to upstream MLIR: one `hw.kernel` becomes one `gpu.module` with one function.
//!
//! Every tile becomes one scalar value a register; `hw` operations become code on those, planned by [`tenon_layout`]. Invariants:
//! - The result holds operations of `llvm`, `nvvm`, `scf`, `arith`, `math` and `vector` only, each with the location of what it was made for.
//! - Values that depend on the thread alone, and constants, are made once, at the start of the function; those of the thread once more behind
//!   a loop that carries so much that they would take registers from it.
//! - Registers that a layout repeats hold the same value; lanes and warps that it repeats do not store.
//! - Shared memory is one dynamic symbol: first the kernel's own allocations, then an area that conversions and reductions take turns
//!   in; a barrier stands between two uses of that area.
//! - Scalars outside `hw.map` are the same in all threads of a block, so that barriers in their control flow are met by all.

mod arrive;
mod async_copy;
mod convert;
mod error;
mod global;
mod local;
mod map;
mod mma;
mod pipeline;
mod rebuild;
mod reduce;
mod scan;
mod shape;
mod shared;
mod shuffle;
mod thread;
mod values;

use std::collections::HashMap;
use std::rc::Rc;

use tenon_hw_dialect::{TensorMapType, TileType};
use tenon_ir::{Attribute, Block, Builder, Location, Module, Op, Type, Value};
use tenon_layout::LayoutError;
use tenon_target::{Architecture, BlockResources};

use error::layout_error;
pub use error::{ExpandError, Place};
use pipeline::Role;
use shared::SharedMemory;
use thread::ThreadValues;
use values::Lowered;

/// What expansion must know of the device.
#[derive(Debug, Clone)]
pub struct TargetInfo {
    /// Which instructions there are.
    pub architecture: &'static Architecture,
    /// The most shared memory that a block can have, in bytes.
    pub shared_bytes: u64,
    /// Multiprocessors of the GPU.
    pub sms: u32,
}

impl TargetInfo {
    /// A device of an architecture, with all the shared memory that a block can opt in to, and as many multiprocessors as a GPU has.
    pub fn of(architecture: &'static Architecture, sms: u32) -> Self {
        TargetInfo { architecture, shared_bytes: u64::from(architecture.limits.shared_memory_per_block), sms }
    }

    /// Blocks of a kernel that a multiprocessor can have at once by its grid, threads and shared memory, whatever their registers; of a
    /// grid that depends on extents, as many as fit.
    fn resident_blocks(&self, kernel: Op<'_>, threads: u32, shared_bytes: u64) -> u32 {
        let grid = kernel.attribute("grid").and_then(Attribute::as_array).unwrap_or_default();
        let size = |size: Attribute<'_>| u64::try_from(size.as_integer()?).ok();
        let blocks = grid.into_iter().try_fold(1u64, |blocks, along| blocks.checked_mul(size(along)?));
        let given = blocks.map_or(u64::MAX, |blocks| blocks.div_ceil(u64::from(self.sms.max(1))).max(1));
        let shared_memory = u32::try_from(shared_bytes).unwrap_or(u32::MAX);
        let block = BlockResources { threads, registers_per_thread: 1, shared_memory };
        let fit = self.architecture.occupancy(&block).map_or(1, |occupancy| occupancy.blocks);
        u32::try_from(given).unwrap_or(u32::MAX).min(fit)
    }
}

/// What a launch must know of an expanded kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInfo {
    /// Name of the entry.
    pub name: String,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory, in bytes.
    pub shared_bytes: u64,
}

/// Appends `gpu.module @NAME { llvm.func @NAME(…) }` for the kernel to `into`, a module of the same session.
///
/// The function's arguments are the kernel's: pointers to global memory, then tensor maps by value, then extents as i64.
pub fn expand_kernel<'s>(kernel: Op<'_>, into: &Module<'s>, target: &TargetInfo) -> Result<KernelInfo, ExpandError> {
    let name = kernel.string("sym_name").unwrap_or_default();
    let place = || Place { operation: kernel.name(), kernel: name.clone(), nodes: kernel.location().names() };
    let malformed = |reason: String| ExpandError::Malformed { place: place(), reason };
    if !kernel.is("hw.kernel") {
        return Err(ExpandError::UnknownOperation { place: place() });
    }
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts_well || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(malformed(format!("`{name}` is no name for an entry: letters, digits and `_` are expected")));
    }
    let warps = kernel.integer("warps").unwrap_or(0);
    let warps = u32::try_from(warps).ok().filter(|warps| warps.is_power_of_two() && *warps <= 32);
    let Some(warps) = warps else {
        return Err(malformed("the number of warps is no power of two of at most 32".to_owned()));
    };
    let producers = u32::try_from(kernel.integer("producer_warps").unwrap_or(0)).unwrap_or(u32::MAX);
    if producers > 32 - warps {
        return Err(malformed(format!("{warps} warps and {producers} producer warps are more than 32")));
    }
    let threads = (warps + producers) * 32;
    let Some(body) = kernel.region_block(0) else {
        return Err(malformed("the kernel has no body".to_owned()));
    };

    let context = into.context();
    into.op().set_attribute("gpu.container_module", context.unit())?;
    let at = Builder::at_end(into.body()).ok_or_else(|| malformed("the target module has no body".to_owned()))?;
    let at = at.with_location(kernel.location());
    let module = at.op("gpu.module").attribute("sym_name", context.string(&name)).regions(1).build()?;
    let Some(region) = module.region(0) else {
        return Err(malformed("`gpu.module` has no region".to_owned()));
    };
    let module_block = region.append_block(&[])?;

    let mut arguments: Vec<(Type<'_>, Location<'_>)> =
        body.arguments().iter().map(|argument| (argument.ty(), kernel.location())).collect();
    let mut attributes = Vec::new();
    for (index, (ty, _)) in arguments.iter_mut().enumerate() {
        let is_map = TensorMapType::read(*ty).is_ok();
        attributes.push(context.parse_attribute(if is_map { TENSOR_MAP_ARGUMENT } else { "{}" })?);
        if is_map {
            *ty = context.pointer_type(0);
            continue;
        }
        let fits = *ty == context.pointer_type(1) || *ty == context.i64_type() || *ty == context.i32_type();
        if !fits {
            let reason = format!(
                "argument {index} is `{ty}`; pointers to global memory, then tensor maps, then extents, are expected"
            );
            return Err(malformed(reason));
        }
    }
    let types: Vec<_> = arguments.iter().map(|(ty, _)| ty.to_string()).collect();
    let signature = context.parse_type(&format!("!llvm.func<void ({})>", types.join(", ")))?;
    let has_maps = arguments.iter().any(|(ty, _)| *ty == context.pointer_type(0));
    let function = at
        .in_block(module_block)
        .op("llvm.func")
        .optional_attribute("arg_attrs", has_maps.then(|| context.array(&attributes)))
        .attribute("sym_name", context.string(&name))
        .attribute("function_type", context.type_attribute(signature))
        .attribute("linkage", context.parse_attribute("#llvm.linkage<external>")?)
        .attribute("nvvm.kernel", context.unit())
        .attribute("nvvm.reqntid", context.i32_array(&[threads as i32, 1, 1]))
        .regions(1)
        .build()?;
    let Some(region) = function.region(0) else {
        return Err(malformed("`llvm.func` has no region".to_owned()));
    };
    let entry = region.append_block(&arguments)?;
    let at = at.in_block(entry);
    // What is made once goes before this constant.
    let anchor = at.op("arith.constant").attribute("value", context.i32(0)).results(&[context.i32_type()]).build()?;

    let mut expander = Expander {
        target,
        kernel: name.clone(),
        place: place(),
        warps,
        role: Role::All,
        at,
        anchor,
        values: HashMap::new(),
        tile_types: HashMap::new(),
        distinct: HashMap::new(),
        constants: HashMap::new(),
        constant_ops: HashMap::new(),
        thread: ThreadValues::default(),
        shared: SharedMemory::new(kernel, Builder::before(function))?,
    };
    for (old, new) in body.arguments().into_iter().zip(entry.arguments()) {
        expander.values.insert(old.key(), Lowered::Scalar(new));
    }
    expander.block(body)?;
    let shared_bytes = expander.shared.total();
    if shared_bytes > target.shared_bytes {
        return Err(ExpandError::SharedMemory { kernel: name, bytes: shared_bytes, limit: target.shared_bytes });
    }
    let blocks = target.resident_blocks(kernel, threads, shared_bytes);
    function.set_attribute("nvvm.minctasm", context.i32(blocks as i32))?;
    Ok(KernelInfo { name, threads, shared_bytes })
}

/// What a parameter that is a tensor map is: 128 bytes by value, aligned to 64, never written (PTX ISA, "Tensor-map").
const TENSOR_MAP_ARGUMENT: &str = "{llvm.byval = !llvm.array<16 x i64>, nvvm.grid_constant, llvm.align = 64 : i32}";

/// State of the expansion of one kernel. `'k` is the tile program's module, `'m` the module that grows.
struct Expander<'k, 'm, 't> {
    target: &'t TargetInfo,
    kernel: String,
    /// The operation being expanded.
    place: Place,
    warps: u32,
    role: Role<'m>,
    /// Where code goes.
    at: Builder<'m>,
    /// End of what is made once.
    anchor: Op<'m>,
    /// By key of the tile program's value.
    values: HashMap<usize, Lowered<'m>>,
    /// By key of the type.
    tile_types: HashMap<usize, Rc<TileType>>,
    /// By key of the type: for each register the first that holds the same.
    distinct: HashMap<usize, Rc<[u32]>>,
    /// By printed attribute.
    constants: HashMap<String, Value<'m>>,
    /// By constant operation of the tile program.
    constant_ops: HashMap<Op<'k>, Value<'m>>,
    thread: ThreadValues<'m>,
    shared: SharedMemory<'m>,
}

impl<'k, 'm> Expander<'k, 'm, '_> {
    /// Expands the operations of a block at the present place.
    fn block(&mut self, block: Block<'k>) -> Result<(), ExpandError> {
        for op in block.ops() {
            self.op(op)?;
        }
        Ok(())
    }

    fn op(&mut self, op: Op<'k>) -> Result<(), ExpandError> {
        let name = op.name();
        self.at = self.at.with_location(op.location());
        self.place = Place { operation: name.clone(), kernel: self.kernel.clone(), nodes: op.location().names() };
        match name.as_str() {
            "hw.return" => self.end(),
            "hw.program_id" => self.program_id(op),
            "hw.iota" => self.iota(op),
            "hw.splat" => self.splat(op),
            "hw.map" => self.map(op),
            "hw.expand_dims" => self.expand_dims(op),
            "hw.broadcast" => self.broadcast(op),
            "hw.transpose" => self.transpose(op),
            "hw.convert_layout" => self.convert_layout(op),
            "hw.load" => self.load(op),
            "hw.store" => self.store(op),
            "hw.alloc" => self.alloc(op),
            "hw.dealloc" => self.dealloc(op),
            "hw.local_load" => self.local_load(op),
            "hw.local_store" => self.local_store(op),
            "hw.async_copy" => self.async_copy(op),
            "hw.async_commit" => self.async_commit(),
            "hw.async_wait" => self.async_wait(op),
            "hw.barrier" => self.barrier(),
            "hw.arrive" => self.arrive(op),
            "hw.producer" => self.producer(op),
            "hw.mbarrier_alloc" => self.mbarrier_alloc(op),
            "hw.mbarrier_expect" => self.mbarrier_expect(op),
            "hw.mbarrier_arrive" => self.mbarrier_arrive(op),
            "hw.mbarrier_wait" => self.mbarrier_wait(op),
            "hw.tma_load" => self.tma_load(op),
            "hw.mma" => self.mma(op),
            "hw.wgmma" => self.wgmma(op),
            "hw.reduce" => self.reduce(op),
            "hw.scan" => self.scan(op),
            _ => self.rebuild(op, &name),
        }
    }

    // Errors at the present operation.

    fn malformed(&self, reason: impl Into<String>) -> ExpandError {
        ExpandError::Malformed { place: self.place.clone(), reason: reason.into() }
    }

    fn misfit(&self, reason: impl Into<String>) -> ExpandError {
        ExpandError::Layout { place: self.place.clone(), reason: reason.into() }
    }

    fn element(&self, reason: impl Into<String>) -> ExpandError {
        ExpandError::Element { place: self.place.clone(), reason: reason.into() }
    }

    fn fit<T>(&self, result: Result<T, LayoutError>) -> Result<T, ExpandError> {
        result.map_err(|error| layout_error(self.place.clone(), &error))
    }

    // Code.

    /// Where code goes that is run once.
    fn prologue(&self) -> Builder<'m> {
        Builder::before(self.anchor).unwrap_or(self.at).with_location(self.anchor.location())
    }

    /// A constant, made once.
    fn constant(&mut self, value: Attribute<'_>) -> Result<Value<'m>, ExpandError> {
        let text = value.to_string();
        if let Some(found) = self.constants.get(&text) {
            return Ok(*found);
        }
        let made = self.prologue().op("arith.constant").attribute("value", value).results(&[value.ty()]).value()?;
        self.constants.insert(text, made);
        Ok(made)
    }

    fn i32(&mut self, value: i64) -> Result<Value<'m>, ExpandError> {
        let context = self.at.context();
        self.constant(context.integer(value, context.i32_type()))
    }

    fn pure(&self, name: &str, operands: &[Value<'m>], result: Type<'_>) -> Result<Value<'m>, ExpandError> {
        Ok(self.at.op(name).operands(operands).results(&[result]).value()?)
    }

    /// An operation of two operands whose result has their type.
    fn binary(&self, name: &str, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, ExpandError> {
        self.pure(name, &[a, b], a.ty())
    }

    fn select(&self, condition: Value<'m>, a: Value<'m>, b: Value<'m>) -> Result<Value<'m>, ExpandError> {
        if a == b { Ok(a) } else { self.pure("arith.select", &[condition, a, b], a.ty()) }
    }

    /// `scf.if` with results; the closures leave what each branch yields.
    fn branch(
        &mut self,
        condition: Value<'m>,
        results: &[Type<'m>],
        then: impl FnOnce(&mut Self) -> Result<Vec<Value<'m>>, ExpandError>,
        otherwise: Option<Vec<Value<'m>>>,
    ) -> Result<Vec<Value<'m>>, ExpandError> {
        let op = self.at.op("scf.if").operands(&[condition]).results(results).regions(2).build()?;
        let outside = self.at;
        let region = |index| op.region(index).ok_or_else(|| self.malformed("`scf.if` has no region"));
        let (first, second) = (region(0)?, region(1)?);
        self.at = outside.in_block(first.append_block(&[])?);
        let yielded = then(self)?;
        self.at.op("scf.yield").operands(&yielded).build()?;
        if let Some(values) = otherwise {
            let at = outside.in_block(second.append_block(&[])?);
            at.op("scf.yield").operands(&values).build()?;
        }
        self.at = outside;
        Ok(op.results())
    }
}
