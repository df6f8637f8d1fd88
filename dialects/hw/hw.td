// The hw dialect: tile programs of one target, and the launch plan. Semantics are checked in Rust.
include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def HW_Dialect : Dialect {
  let name = "hw";
  let cppNamespace = "::tenon::hw";
  let summary = "Tile programs of one target and the launch plan";
  let description = [{
    A kernel is a program over tiles. A tile is distributed over the registers, lanes and warps of a block by a layout that is linear over the
    bits of their indices. Scalar code inside `hw.map` is `arith` and `math`; loops are `scf.for`, which carry tiles.
    A program is the host side: buffers in one arena, and the launches that use them.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

// ---- Attributes and types ---------------------------------------------------------------------------------------------------------

def HW_LayoutAttr : AttrDef<HW_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "Which tile coordinate each bit of register, lane and warp index contributes";
  let description = "`reg`, `lane` and `warp` are lists of basis vectors with one entry a dimension; the coordinates of a place are the exclusive or of the vectors of its set bits.";
  let parameters = (ins "unsigned":$rank, ArrayRefParameter<"int64_t">:$reg, ArrayRefParameter<"int64_t">:$lane, ArrayRefParameter<"int64_t">:$warp);
  let hasCustomAssemblyFormat = 1;
}
def HW_SharedLayoutAttr : AttrDef<HW_Dialect, "SharedLayout"> {
  let mnemonic = "shared_layout";
  let summary = "Which tile coordinate each bit of the offset in shared memory contributes, in elements";
  let parameters = (ins "unsigned":$rank, ArrayRefParameter<"int64_t">:$offset);
  let hasCustomAssemblyFormat = 1;
}
def HW_TileType : TypeDef<HW_Dialect, "Tile"> {
  let mnemonic = "tile";
  let summary = "Values of one block, distributed by a layout; every size is a power of two";
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "mlir::Type":$element, "LayoutAttr":$layout);
  let assemblyFormat = "`<` `[` $shape `]` `x` $element `,` $layout `>`";
}
def HW_SharedType : TypeDef<HW_Dialect, "Shared"> {
  let mnemonic = "shared";
  let summary = "Shared memory that holds `slots` tiles one after another";
  let parameters = (ins "int64_t":$slots, ArrayRefParameter<"int64_t">:$shape, "mlir::Type":$element, "SharedLayoutAttr":$layout);
  let assemblyFormat = "`<` $slots `x` `[` $shape `]` `x` $element `,` $layout `>`";
}
def HW_BufferType : TypeDef<HW_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "Device memory that holds a tensor";
  let parameters = (ins "mlir::Type":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}

def HW_MbarriersType : TypeDef<HW_Dialect, "Mbarriers"> {
  let mnemonic = "mbarriers";
  let summary = "Barriers in shared memory that count arrivals and bytes, by number";
  let parameters = (ins "int64_t":$count);
  let assemblyFormat = "`<` $count `>`";
}
def HW_TensorMapType : TypeDef<HW_Dialect, "TensorMap"> {
  let mnemonic = "tensor_map";
  let summary = "Describes a tensor in global memory that is copied box by box; sizes of the box, innermost first, and the width in bytes of the swizzle in shared memory";
  let parameters = (ins ArrayRefParameter<"int64_t">:$box, "mlir::Type":$element, "int64_t":$swizzle);
  let assemblyFormat = "`<` `[` $box `]` `x` $element `,` $swizzle `>`";
}

def Pointer : Type<CPred<"::llvm::isa<::mlir::LLVM::LLVMPointerType>($_self)">, "pointer">;

class HW_Op<string mnemonic, list<Trait> traits = []> : Op<HW_Dialect, mnemonic, traits>;
class HW_PureOp<string mnemonic, list<Trait> traits = []> : HW_Op<mnemonic, !listconcat([Pure], traits)>;

// ---- Kernels ----------------------------------------------------------------------------------------------------------------------

def HW_KernelOp : HW_Op<"kernel", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "A tile program: arguments are pointers to global memory, then tensor maps, then extents as i64";
  let description = "Tiles lie in the registers of `warps` warps. With `producer_warps`, the block has so many more, which run the region of `hw.producer` and nothing behind it.";
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$target, I64Attr:$warps, ArrayAttr:$grid, OptionalAttr<I64Attr>:$producer_warps, OptionalAttr<ArrayAttr>:$source_nodes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `target` $target `warps` $warps `grid` $grid attr-dict-with-keyword $body";
}
def HW_ReturnOp : HW_Op<"return", [Terminator]> {
  let summary = "End of a kernel or program";
  let assemblyFormat = "attr-dict";
}
def HW_ProgramIdOp : HW_PureOp<"program_id"> {
  let summary = "Index of the block in the grid along axis 0, 1 or 2";
  let arguments = (ins I64Attr:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict";
}
def HW_IotaOp : HW_PureOp<"iota"> {
  let summary = "0, 1, 2, … along a dimension of a tile of i32";
  let arguments = (ins I64Attr:$dimension);
  let results = (outs HW_TileType:$result);
  let assemblyFormat = "$dimension attr-dict `:` type($result)";
}
def HW_SplatOp : HW_PureOp<"splat"> {
  let summary = "One scalar in every place";
  let arguments = (ins AnyType:$value);
  let results = (outs HW_TileType:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
}
def HW_MapOp : HW_PureOp<"map", [SingleBlock]> {
  let summary = "Scalar code applied to every element of tiles of one layout; may use scalars from outside";
  let arguments = (ins Variadic<HW_TileType>:$inputs);
  let results = (outs Variadic<HW_TileType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` `:` functional-type($inputs, $outputs) attr-dict-with-keyword $body";
}
def HW_YieldOp : HW_Op<"yield", [Pure, Terminator]> {
  let summary = "Results of scalar code";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

// ---- Shape of tiles ---------------------------------------------------------------------------------------------------------------

class HW_TileToTile<string mnemonic> : HW_PureOp<mnemonic> {
  let results = (outs HW_TileType:$result);
}
def HW_ExpandDimsOp : HW_TileToTile<"expand_dims"> {
  let summary = "The tile with a dimension of size 1 put in; places keep their elements";
  let arguments = (ins HW_TileType:$tile, I64Attr:$dimension);
  let assemblyFormat = "$tile `at` $dimension attr-dict `:` type($tile) `->` type($result)";
}
def HW_BroadcastOp : HW_TileToTile<"broadcast"> {
  let summary = "Dimensions of size 1 repeated";
  let arguments = (ins HW_TileType:$tile);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($result)";
}
def HW_TransposeOp : HW_TileToTile<"transpose"> {
  let summary = "Dimension i of the result is dimension permutation[i]; places keep their elements";
  let arguments = (ins HW_TileType:$tile, DenseI64ArrayAttr:$permutation);
  let assemblyFormat = "$tile `by` $permutation attr-dict `:` type($tile) `->` type($result)";
}
def HW_ConvertLayoutOp : HW_TileToTile<"convert_layout"> {
  let summary = "The same tile in another layout, by registers, shuffles or shared memory";
  let arguments = (ins HW_TileType:$tile);
  let assemblyFormat = "$tile attr-dict `:` type($tile) `->` type($result)";
}

// ---- Memory -----------------------------------------------------------------------------------------------------------------------

def HW_LoadOp : HW_Op<"load", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "Elements at pointer + offset (in elements, i32 or i64); where the mask is false, `other` and no access";
  let description = "`contiguity` registers in a row address consecutive, aligned elements under one mask. `uniform` registers in a row address the same element.";
  let arguments = (ins Pointer:$pointer, HW_TileType:$offsets, Optional<HW_TileType>:$mask, Optional<AnyType>:$other,
                       DefaultValuedAttr<I64Attr, "1">:$contiguity, DefaultValuedAttr<I64Attr, "1">:$uniform);
  let results = (outs HW_TileType:$result);
  let assemblyFormat = "$pointer `[` $offsets `]` (`mask` $mask^ `:` type($mask))? (`else` $other^ `:` type($other))? attr-dict `:` type($pointer) `,` type($offsets) `->` type($result)";
}
def HW_StoreOp : HW_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "Elements to pointer + offset (in elements) where the mask holds";
  let arguments = (ins Pointer:$pointer, HW_TileType:$offsets, HW_TileType:$value, Optional<HW_TileType>:$mask,
                       DefaultValuedAttr<I64Attr, "1">:$contiguity);
  let assemblyFormat = "$value `,` $pointer `[` $offsets `]` (`mask` $mask^ `:` type($mask))? attr-dict `:` type($value) `,` type($pointer) `,` type($offsets)";
}
def HW_AllocOp : HW_Op<"alloc", [MemoryEffects<[MemAlloc]>]> {
  let summary = "Shared memory for the kernel's life, or up to an `hw.dealloc`; `alignment` in bytes, 128 if it is not given";
  let arguments = (ins OptionalAttr<I64Attr>:$alignment);
  let results = (outs HW_SharedType:$result);
  let assemblyFormat = "(`align` $alignment^)? attr-dict `:` type($result)";
}
def HW_DeallocOp : HW_Op<"dealloc", [MemoryEffects<[MemFree]>]> {
  let summary = "End of the use of shared memory by all warps; conversions and reductions behind it may take turns in it";
  let arguments = (ins HW_SharedType:$shared);
  let assemblyFormat = "$shared attr-dict `:` type($shared)";
}
def HW_LocalLoadOp : HW_Op<"local_load", [MemoryEffects<[MemRead]>]> {
  let summary = "Tile from a slot of shared memory; by ldmatrix where the layouts allow it";
  let arguments = (ins HW_SharedType:$shared, I32:$slot);
  let results = (outs HW_TileType:$result);
  let assemblyFormat = "$shared `[` $slot `]` attr-dict `:` type($shared) `->` type($result)";
}
def HW_LocalStoreOp : HW_Op<"local_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "Tile to a slot of shared memory";
  let arguments = (ins HW_TileType:$value, HW_SharedType:$shared, I32:$slot);
  let assemblyFormat = "$value `,` $shared `[` $slot `]` attr-dict `:` type($value) `,` type($shared)";
}
def HW_AsyncCopyOp : HW_Op<"async_copy", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Asynchronous copy of global elements to a slot of shared memory (cp.async); where the mask is false, zeros";
  let arguments = (ins Pointer:$pointer, HW_TileType:$offsets, HW_SharedType:$shared, I32:$slot, Optional<HW_TileType>:$mask,
                       DefaultValuedAttr<I64Attr, "1">:$contiguity);
  let assemblyFormat = "$pointer `[` $offsets `]` `to` $shared `[` $slot `]` (`mask` $mask^ `:` type($mask))? attr-dict `:` type($pointer) `,` type($offsets) `,` type($shared)";
}
def HW_AsyncCommitOp : HW_Op<"async_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Closes a group of asynchronous copies";
  let assemblyFormat = "attr-dict";
}
def HW_AsyncWaitOp : HW_Op<"async_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until at most `pending` groups of this thread are open; other threads see the data after a barrier";
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}
def HW_BarrierOp : HW_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Barrier of the block";
  let assemblyFormat = "attr-dict";
}
def HW_ArriveOp : HW_Op<"arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "An arrival of the block at a counter in global memory: how many of `count` blocks arrived before it";
  let description = "The counter is the i32 at the pointer + index. The last of `count` arrivals sets it back to 0, so that it is ready for the next launch. Releases and acquires on the scope of the device: what all warps of a block wrote to global memory before its arrival, all warps of a block that arrives later see behind theirs. It is a barrier of the block.";
  let arguments = (ins Pointer:$pointer, I32:$index, I32:$count);
  let results = (outs I32:$before);
  let assemblyFormat = "$pointer `[` $index `]` `of` $count attr-dict `:` type($pointer)";
}

// ---- Producer and consumers -------------------------------------------------------------------------------------------------------

def HW_ProducerOp : HW_Op<"producer", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "Code of one thread of the producer warps, which end with it; the other warps go on behind it";
  let description = "It stands once in a kernel with `producer_warps`, in its own block. Behind it, `hw.barrier` is one of the other warps.";
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
}
def HW_MbarrierAllocOp : HW_Op<"mbarrier_alloc", [MemoryEffects<[MemAlloc, MemWrite]>]> {
  let summary = "Barriers, ready for use after an `hw.barrier`; each completes a phase by so many arrivals and all bytes that are expected";
  let arguments = (ins I64Attr:$arrivals);
  let results = (outs HW_MbarriersType:$result);
  let assemblyFormat = "$arrivals attr-dict `:` type($result)";
}
def HW_MbarrierExpectOp : HW_Op<"mbarrier_expect", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "An arrival of this thread, with so many bytes expected from copies";
  let arguments = (ins HW_MbarriersType:$barriers, I32:$slot, I64Attr:$bytes);
  let assemblyFormat = "$barriers `[` $slot `]` `bytes` $bytes attr-dict `:` type($barriers)";
}
def HW_MbarrierArriveOp : HW_Op<"mbarrier_arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "One arrival of each warp";
  let arguments = (ins HW_MbarriersType:$barriers, I32:$slot);
  let assemblyFormat = "$barriers `[` $slot `]` attr-dict `:` type($barriers)";
}
def HW_MbarrierWaitOp : HW_Op<"mbarrier_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Waits until the phase of a parity, 0 or 1, is complete; the phase before the first counts as complete, with parity 1";
  let arguments = (ins HW_MbarriersType:$barriers, I32:$slot, I32:$parity);
  let assemblyFormat = "$barriers `[` $slot `]` `parity` $parity attr-dict `:` type($barriers)";
}
def HW_TmaLoadOp : HW_Op<"tma_load", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Copies boxes of a tensor to a slot of shared memory, from coordinates on, innermost first; zeros outside of the tensor";
  let description = "Boxes follow each other along the innermost dimension until the slot is full. The bytes count at a barrier. One thread executes it.";
  let arguments = (ins HW_TensorMapType:$map, Variadic<I32>:$coordinates, HW_SharedType:$shared, I32:$slot, HW_MbarriersType:$barriers);
  let assemblyFormat = "$map `[` $coordinates `]` `to` $shared `[` $slot `]` `arrive` $barriers attr-dict `:` type($map) `,` type($shared) `,` type($barriers)";
}
def HW_WgmmaOp : HW_Op<"wgmma", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "a · b + c by warpgroups, or a · b; done when the operation is. `instruction` is a row of the matrix-instruction table";
  let description = "B is a slot of shared memory, A a slot or a tile in registers.";
  let arguments = (ins StrAttr:$instruction, AnyTypeOf<[HW_SharedType, HW_TileType]>:$a, Optional<I32>:$a_slot, HW_SharedType:$b, I32:$b_slot,
                       Optional<HW_TileType>:$c);
  let results = (outs HW_TileType:$result);
  let assemblyFormat = "$instruction $a (`[` $a_slot^ `]`)? `,` $b `[` $b_slot `]` (`,` $c^ `:` type($c))? attr-dict `:` type($a) `,` type($b) `->` type($result)";
}

// ---- Computation across places ----------------------------------------------------------------------------------------------------

def HW_MmaOp : HW_TileToTile<"mma"> {
  let summary = "a · b + c on fragments; `instruction` is a row of the matrix-instruction table, or `fma` for CUDA cores";
  let arguments = (ins StrAttr:$instruction, HW_TileType:$a, HW_TileType:$b, HW_TileType:$c);
  let assemblyFormat = "$instruction $a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `,` type($c) `->` type($result)";
}
def HW_ReduceOp : HW_PureOp<"reduce", [SingleBlock]> {
  let summary = "Reduction along a dimension by associative scalar code, in a fixed order; the results lack the dimension";
  let description = "The body takes an accumulated and a new element of each input and yields the combined ones.";
  let arguments = (ins I64Attr:$dimension, Variadic<HW_TileType>:$inputs);
  let results = (outs Variadic<HW_TileType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$dimension `(` $inputs `)` `:` functional-type($inputs, $outputs) attr-dict-with-keyword $body";
}

def HW_ScanOp : HW_PureOp<"scan", [SingleBlock]> {
  let summary = "Inclusive scan along a dimension by associative scalar code, in a fixed order";
  let description = "The body takes the combination of the elements before and a new element of each input and yields their combination. Element i of a result combines the elements 0 to i of its input.";
  let arguments = (ins I64Attr:$dimension, Variadic<HW_TileType>:$inputs);
  let results = (outs Variadic<HW_TileType>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$dimension `(` $inputs `)` `:` functional-type($inputs, $outputs) attr-dict-with-keyword $body";
}

// ---- The launch plan --------------------------------------------------------------------------------------------------------------

def HW_ProgramOp : HW_Op<"program", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "Host side of a compiled bucket";
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$arena_bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `arena` $arena_bytes attr-dict-with-keyword $body";
}
def HW_InputOp : HW_Op<"input"> {
  let summary = "An input of the model, given by the caller";
  let arguments = (ins StrAttr:$name);
  let results = (outs HW_BufferType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}
def HW_ParameterOp : HW_Op<"parameter"> {
  let summary = "A weight";
  let arguments = (ins StrAttr:$name);
  let results = (outs HW_BufferType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}
def HW_BufferOp : HW_Op<"buffer"> {
  let summary = "A range of the arena, alive from step `first` to step `last`; with `output`, memory of its own";
  let description = "With `zeroed`, the range holds zeros when the first step runs for the first time, and kernels leave zeros in it: it is alive in all steps and shares no byte with another buffer.";
  let arguments = (ins I64Attr:$offset, I64Attr:$bytes, I64Attr:$first, I64Attr:$last, UnitAttr:$zeroed);
  let results = (outs HW_BufferType:$result);
  let assemblyFormat = "`offset` $offset `bytes` $bytes `alive` $first `to` $last attr-dict `:` type($result)";
}
def HW_ViewOp : HW_Op<"view"> {
  let summary = "The same memory as another tensor";
  let arguments = (ins HW_BufferType:$buffer);
  let results = (outs HW_BufferType:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
}
def HW_LaunchOp : HW_Op<"launch"> {
  let summary = "Runs a kernel; arguments are buffers in the order of the kernel's pointers";
  let description = "`tensor_maps` describes each tensor map of the kernel: the number of the buffer, `sizes`, innermost first, `strides` in bytes of all dimensions but the innermost, the sizes of the `box` and the width in bytes of the `swizzle`. Sizes and strides may be expressions of extents.";
  let arguments = (ins FlatSymbolRefAttr:$kernel, ArrayAttr:$grid, OptionalAttr<ArrayAttr>:$extents, OptionalAttr<ArrayAttr>:$tensor_maps, Variadic<HW_BufferType>:$buffers);
  let assemblyFormat = "$kernel `grid` $grid `(` $buffers `)` attr-dict `:` type($buffers)";
}
def HW_CopyOp : HW_Op<"copy"> {
  let summary = "Copies one buffer to another of the same size";
  let arguments = (ins HW_BufferType:$source, HW_BufferType:$target);
  let assemblyFormat = "$source `to` $target attr-dict `:` type($source) `,` type($target)";
}
def HW_MemsetOp : HW_Op<"memset"> {
  let summary = "Fills a buffer with a byte";
  let arguments = (ins I64Attr:$byte, HW_BufferType:$target);
  let assemblyFormat = "$target `with` $byte attr-dict `:` type($target)";
}
def HW_ReadExtentOp : HW_Op<"read_extent"> {
  let summary = "The value of an extent, at most `capacity`, from an i64 that a step before has computed; steps behind it may use the name";
  let arguments = (ins StrAttr:$name, I64Attr:$capacity, HW_BufferType:$source);
  let assemblyFormat = "$name `at_most` $capacity `from` $source attr-dict `:` type($source)";
}
def HW_IfOp : HW_Op<"if", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "Steps that run if the byte of a buffer is not 0, and those that run if it is; both count as one step for lifetimes. With `host`, the host reads it";
  let arguments = (ins HW_BufferType:$predicate, UnitAttr:$host);
  let regions = (region SizedRegion<1>:$then_body, SizedRegion<1>:$else_body);
  let assemblyFormat = "$predicate `:` type($predicate) attr-dict-with-keyword $then_body `else` $else_body";
}
def HW_WhileOp : HW_Op<"while", [SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "Steps that run as long as the byte of a buffer is not 0, at most `limit` times; all count as one step for lifetimes. With `host`, the host reads it";
  let arguments = (ins HW_BufferType:$predicate, OptionalAttr<I64Attr>:$limit, UnitAttr:$host);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$predicate (`at_most` $limit^)? `:` type($predicate) attr-dict-with-keyword $body";
}
def HW_OutputOp : HW_Op<"output"> {
  let summary = "An output of the model";
  let arguments = (ins StrAttr:$name, HW_BufferType:$buffer);
  let assemblyFormat = "$name $buffer attr-dict `:` type($buffer)";
}
