// The graph dialect: tensors and operators. Semantics that need shapes are checked in Rust, one file per operator under `src/operators`.
include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::tenon::graph";
  let summary = "Tensors and operators";
  let description = [{
    One set of general operators for all of ONNX and core ATen. A value is a ranked tensor whose encoding may be a dictionary:
    `dims` names the extent of each dimension (a symbol, an expression over symbols, or a number), `order` is the order of dimensions in
    memory from slowest to fastest (absent: row-major). The static shape is the capacity; an extent never exceeds it.
    Signed integers are signless, unsigned ones `uiN`. Every operator is pure and rounds its result to its element type.
  }];
}

class Graph_Op<string mnemonic, list<Trait> traits = []> : Op<Graph_Dialect, mnemonic, traits>;
class Graph_PureOp<string mnemonic, list<Trait> traits = []> : Graph_Op<mnemonic, !listconcat([Pure], traits)>;

defvar Tensor = AnyRankedTensor;

// ---- Values that are not computed ------------------------------------------------------------------------------------------------

def Graph_ParameterOp : Graph_Op<"parameter", [Symbol]> {
  let summary = "A weight of the model, kept outside the IR";
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, OptionalAttr<StrAttr>:$source);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
}
def Graph_DerivedParameterOp : Graph_Op<"derived_parameter", [Symbol, IsolatedFromAbove, SingleBlock]> {
  let summary = "A weight computed from weights, evaluated once at build time";
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `:` $type attr-dict-with-keyword $body";
}
def Graph_GetParameterOp : Graph_PureOp<"get_parameter"> {
  let summary = "Value of a parameter or derived parameter";
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs Tensor:$result);
  let assemblyFormat = "$parameter attr-dict `:` type($result)";
}
def Graph_ConstantOp : Graph_PureOp<"constant"> {
  let summary = "A small literal";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Tensor:$result);
  let assemblyFormat = "attr-dict $value `->` type($result)";
}
def Graph_IotaOp : Graph_PureOp<"iota"> {
  let summary = "start + step * i along one dimension, of the given shape";
  let arguments = (ins ArrayAttr:$shape, I64Attr:$axis);
  let results = (outs Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}
def Graph_DimOp : Graph_PureOp<"dim"> {
  let summary = "Extent of one dimension as an i64 scalar tensor";
  let arguments = (ins Tensor:$input, I64Attr:$axis);
  let results = (outs Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

// ---- Computation -----------------------------------------------------------------------------------------------------------------

class Graph_KeywordOp<string mnemonic, string attribute> : Graph_PureOp<mnemonic> {
  let results = (outs Tensor:$result);
  let assemblyFormat = "custom<Keyword>($" # attribute # ") `(` $inputs `)` attr-dict `:` functional-type($inputs, results)";
}
class Graph_NaryOp<string mnemonic> : Graph_PureOp<mnemonic> {
  let results = (outs Tensor:$result);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, results)";
}
class Graph_UnaryOp<string mnemonic> : Graph_PureOp<mnemonic> {
  let results = (outs Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Graph_ElementwiseOp : Graph_KeywordOp<"elementwise", "function"> {
  let summary = "A scalar function of one to three tensors, broadcast against each other as NumPy does";
  let arguments = (ins StrAttr:$function, Variadic<Tensor>:$inputs);
}
def Graph_CastOp : Graph_UnaryOp<"cast"> {
  let summary = "Conversion to the result's element type";
  let description = "Float to integer truncates; float to narrower float rounds to nearest even. `saturate` clamps to the range of a float8 type.";
  let arguments = (ins Tensor:$input, UnitAttr:$saturate);
}
def Graph_BitcastOp : Graph_UnaryOp<"bitcast"> {
  let summary = "The bits of each element as an element of another type of as many bits";
  let arguments = (ins Tensor:$input);
}
def Graph_ContractOp : Graph_PureOp<"contract"> {
  let summary = "Sum of products over the labels that the result lacks, as in Einstein notation";
  let description = "`graph.contract \"bmk,bkn->bmn\"(%a, %b) {accumulate = f32}`: one letter a dimension; a letter occurs at most once an operand.";
  let arguments = (ins StrAttr:$equation, TypeAttr:$accumulate, Tensor:$lhs, Tensor:$rhs);
  let results = (outs Tensor:$result);
  let assemblyFormat = "$equation `(` $lhs `,` $rhs `)` `accumulate` $accumulate attr-dict `:` functional-type(operands, results)";
}
def Graph_ConvolutionOp : Graph_PureOp<"convolution"> {
  let summary = "Convolution of [N, C, D…] with [O, C/groups, K…], or its transpose with [C, O/groups, K…]";
  let arguments = (ins TypeAttr:$accumulate, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$pad_begin,
                       DenseI64ArrayAttr:$pad_end, I64Attr:$groups, UnitAttr:$transposed, OptionalAttr<DenseI64ArrayAttr>:$output_padding,
                       Tensor:$input, Tensor:$weight);
  let results = (outs Tensor:$result);
  let assemblyFormat = "`(` $input `,` $weight `)` `accumulate` $accumulate attr-dict `:` functional-type(operands, results)";
}
def Graph_WindowOp : Graph_PureOp<"window"> {
  let summary = "Reduction of sliding windows over the spatial dimensions of [N, C, D…]: max, average, sum, l2";
  let description = [{`pad_end_extra` is the padding at the end that rounding the output size up asks for; an average divides by the cells inside
    the input, or with `count_include_pad` by those inside input plus declared pads.}];
  let arguments = (ins StrAttr:$kind, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$pad_begin, DenseI64ArrayAttr:$pad_end, UnitAttr:$ceil, UnitAttr:$count_include_pad, Tensor:$input);
  let results = (outs Tensor:$result);
  let assemblyFormat = "custom<Keyword>($kind) `(` $input `)` attr-dict `:` functional-type(operands, results)";
}
def Graph_ReduceOp : Graph_PureOp<"reduce"> {
  let summary = "Reduction over axes: sum, mean, max, min, product, any, all";
  let description = "Sums and means of f16 and bf16 accumulate in f32. NaN wins a max or min.";
  let arguments = (ins StrAttr:$kind, DenseI64ArrayAttr:$axes, UnitAttr:$keep_dims, Tensor:$input);
  let results = (outs Tensor:$result);
  let assemblyFormat = "custom<Keyword>($kind) `(` $input `)` attr-dict `:` functional-type(operands, results)";
}
def Graph_ArgReduceOp : Graph_PureOp<"arg_reduce"> {
  let summary = "Index of the max or min along an axis, as i64; the first of equals unless `last`; NaN wins";
  let arguments = (ins StrAttr:$kind, I64Attr:$axis, UnitAttr:$keep_dims, UnitAttr:$last, Tensor:$input);
  let results = (outs Tensor:$result);
  let assemblyFormat = "custom<Keyword>($kind) `(` $input `)` attr-dict `:` functional-type(operands, results)";
}
def Graph_ScanOp : Graph_PureOp<"scan"> {
  let summary = "Cumulative sum, product, max or min along an axis";
  let arguments = (ins StrAttr:$kind, I64Attr:$axis, UnitAttr:$exclusive, UnitAttr:$reverse, Tensor:$input);
  let results = (outs Tensor:$result);
  let assemblyFormat = "custom<Keyword>($kind) `(` $input `)` attr-dict `:` functional-type(operands, results)";
}
def Graph_SoftmaxOp : Graph_UnaryOp<"softmax"> {
  let summary = "exp(x - max) / sum(exp(x - max)) along an axis, or its logarithm; in f32 for f16 and bf16";
  let arguments = (ins I64Attr:$axis, UnitAttr:$log, Tensor:$input);
}
def Graph_NormalizeOp : Graph_KeywordOp<"normalize", "kind"> {
  let summary = "Normalisation over axes: layer ((x - mean) / sqrt(var + eps)) or rms (x / sqrt(mean(x²) + eps)), then scale and bias";
  let description = "Inputs: x, then scale and bias where present, broadcast against x. Statistics are in f32 for f16, bf16 and f32.";
  let arguments = (ins StrAttr:$kind, DenseI64ArrayAttr:$axes, F64Attr:$epsilon, Variadic<Tensor>:$inputs);
}
def Graph_AttentionOp : Graph_NaryOp<"attention"> {
  let summary = "softmax(cap(scale · q kᵀ) + mask) v on [batch, heads, sequence, dimension]; inputs q, k, v and optionally a mask";
  let description = [{Fewer key heads than query heads: each key head serves a group. `softcap` c makes a score c · tanh(score / c). A mask of
    truth values hides the keys where it is false; one of numbers is added, and hides where it is -∞. `causal` hides keys after the query: `start`, query i
    sees keys 0 to i; `end`, the last query and the last key are of one time. A query that sees no key gives 0; with
    `plain_softmax` it gives NaN, and a mask of numbers is added and no more. f16 and bf16 compute in f32.}];
  let arguments = (ins F64Attr:$scale, OptionalAttr<F64Attr>:$softcap, OptionalAttr<StrAttr>:$causal, UnitAttr:$plain_softmax,
                       Variadic<Tensor>:$inputs);
}
def Graph_ResizeOp : Graph_UnaryOp<"resize"> {
  let summary = "Interpolation to `sizes`: nearest, linear, cubic";
  let description = "`coordinates` maps an output to an input coordinate as ONNX's coordinate_transformation_mode; `rounding` is its nearest_mode.";
  let arguments = (ins StrAttr:$mode, StrAttr:$coordinates, StrAttr:$rounding, ArrayAttr:$sizes, OptionalAttr<DenseF64ArrayAttr>:$scales,
                       F64Attr:$cubic_coefficient, UnitAttr:$exclude_outside, OptionalAttr<DenseF64ArrayAttr>:$region,
                       F64Attr:$extrapolation_value, Tensor:$input);
}
def Graph_GatherOp : Graph_PureOp<"gather"> {
  let summary = "Elements or slices picked by index: take (along an axis), elements (along an axis, index shaped as the result), nd (index tuples)";
  let description = "Negative indices count from the end; an index out of range is clamped.";
  let arguments = (ins StrAttr:$kind, I64Attr:$axis, I64Attr:$batch_dims, Tensor:$input, Tensor:$indices);
  let results = (outs Tensor:$result);
  let assemblyFormat = "custom<Keyword>($kind) `(` $input `,` $indices `)` attr-dict `:` functional-type(operands, results)";
}
def Graph_ScatterOp : Graph_PureOp<"scatter"> {
  let summary = "A copy of the input with updates combined in: elements (along an axis) or nd (index tuples); set, add, multiply, max, min";
  let description = "Duplicates all take part, in index order; with `set` the last one stays.";
  let arguments = (ins StrAttr:$kind, StrAttr:$combine, I64Attr:$axis, Tensor:$input, Tensor:$indices, Tensor:$updates);
  let results = (outs Tensor:$result);
  let assemblyFormat = "custom<Keyword>($kind) `(` $input `,` $indices `,` $updates `)` attr-dict `:` functional-type(operands, results)";
}
def Graph_TopKOp : Graph_PureOp<"top_k"> {
  let summary = "The k largest or smallest along an axis with their i64 indices; the lower index first among equals";
  let arguments = (ins I64Attr:$k, I64Attr:$axis, UnitAttr:$smallest, Tensor:$input);
  let results = (outs Tensor:$values, Tensor:$indices);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
}
def Graph_QuantizeOp : Graph_NaryOp<"quantize"> {
  let summary = "saturate(round_half_even(x / scale) + zero_point) to the result's type; inputs x, scale, zero point";
  let arguments = (ins I64Attr:$axis, I64Attr:$block_size, Variadic<Tensor>:$inputs);
}
def Graph_DequantizeOp : Graph_NaryOp<"dequantize"> {
  let summary = "(x - zero_point) * scale in the result's type; inputs x, scale, zero point";
  let arguments = (ins I64Attr:$axis, I64Attr:$block_size, Variadic<Tensor>:$inputs);
}
def Graph_CustomOp : Graph_Op<"custom"> {
  let summary = "An operator that the recipe binds to a library";
  let arguments = (ins StrAttr:$callee, OptionalAttr<DictionaryAttr>:$parameters, Variadic<Tensor>:$inputs);
  let results = (outs Variadic<Tensor>:$outputs);
  let assemblyFormat = "$callee `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)";
}

def Graph_RecurrenceOp : Graph_PureOp<"recurrence"> {
  let summary = "The steps of a recurrent layer (kind: rnn, gru, lstm) one after another, in one direction";
  let description = [{
    Inputs: what the layer's inputs give to its gates [T, B, G * H]; weights of the hidden state [H, G * H]; then those that `optional` names.
    Results: the hidden states of all steps [T, B, H], the last one [B, H], and the last memory of an LSTM [B, H].
  }];
  let arguments = (ins StrAttr:$kind, ArrayAttr:$activations, ArrayAttr:$optional, Variadic<Tensor>:$inputs);
  let results = (outs Variadic<Tensor>:$outputs);
  let assemblyFormat = "custom<Keyword>($kind) `(` $inputs `)` attr-dict `:` functional-type($inputs, results)";
}

// ---- Shape and layout ------------------------------------------------------------------------------------------------------------

def Graph_ReshapeOp : Graph_UnaryOp<"reshape"> {
  let summary = "The same elements in row-major order under another shape";
  let arguments = (ins ArrayAttr:$shape, Tensor:$input);
}
def Graph_TransposeOp : Graph_UnaryOp<"transpose"> {
  let summary = "Dimension i of the result is dimension permutation[i] of the input";
  let arguments = (ins DenseI64ArrayAttr:$permutation, Tensor:$input);
}
def Graph_BroadcastOp : Graph_UnaryOp<"broadcast"> {
  let summary = "NumPy broadcast to a shape; dimensions align at the end";
  let arguments = (ins ArrayAttr:$shape, Tensor:$input);
}
def Graph_SliceOp : Graph_UnaryOp<"slice"> {
  let summary = "sizes[i] elements from starts[i] in steps of steps[i] (never 0, may be negative)";
  let arguments = (ins ArrayAttr:$starts, ArrayAttr:$sizes, DenseI64ArrayAttr:$steps, Tensor:$input);
}
def Graph_PadOp : Graph_PureOp<"pad"> {
  let summary = "Padding by low and high (negative crops, before anything else): constant, reflect, edge, wrap";
  let arguments = (ins StrAttr:$mode, ArrayAttr:$low, ArrayAttr:$high, Tensor:$input, Tensor:$value);
  let results = (outs Tensor:$result);
  let assemblyFormat = "custom<Keyword>($mode) `(` $input `,` $value `)` attr-dict `:` functional-type(operands, results)";
}
def Graph_SearchSortedOp : Graph_NaryOp<"search_sorted"> {
  let summary = "How many elements of the first input, an ascending list, are less than each element of the second";
  let arguments = (ins Variadic<Tensor>:$inputs);
}
def Graph_NonMaxSuppressionOp : Graph_NaryOp<"non_max_suppression"> {
  let summary = "Which candidates overlap with no candidate that is kept before them";
  let description = "Inputs: boxes [rows, boxes, 4] as y1, x1, y2, x2; candidates [rows, boxes]; the largest intersection over union [1].";
  let arguments = (ins Variadic<Tensor>:$inputs);
}
def Graph_SetDimensionSizeOp : Graph_Op<"set_dimension_size"> {
  let summary = "The first slices of a tensor, as many as an i64 scalar says, which becomes the value of the name `extent`";
  let description = "The capacity stays that of the tensor. Operations that use the name stand behind this one; it is not removed or moved.";
  let arguments = (ins StrAttr:$extent, Tensor:$input, Tensor:$size);
  let results = (outs Tensor:$result);
  let assemblyFormat = "$extent `=` $size `of` $input attr-dict `:` functional-type(operands, results)";
}
def Graph_ConcatOp : Graph_NaryOp<"concat"> {
  let summary = "Inputs one after another along an axis, each cut at its extent";
  let arguments = (ins I64Attr:$axis, Variadic<Tensor>:$inputs);
}

// ---- Kernels ---------------------------------------------------------------------------------------------------------------------

def Graph_KernelOp : Graph_Op<"kernel", [IsolatedFromAbove, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "A fusion group: what one kernel computes";
  let arguments = (ins StrAttr:$sym_name, StrAttr:$family, OptionalAttr<ArrayAttr>:$rules, OptionalAttr<StrAttr>:$numeric_class,
                       OptionalAttr<F64Attr>:$cost, Variadic<Tensor>:$inputs);
  let results = (outs Variadic<Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<Keyword>($family) $sym_name `(` $inputs `)` `:` functional-type($inputs, $outputs) attr-dict-with-keyword $body";
}
def Graph_YieldOp : Graph_Op<"yield", [Pure, Terminator]> {
  let summary = "Results of a region";
  let arguments = (ins Variadic<Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}
