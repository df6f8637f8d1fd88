// The flow dialect: control flow over tensors. Types of regions are checked in Rust.
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Flow_Dialect : Dialect {
  let name = "flow";
  let cppNamespace = "::tenon::flow";
  let summary = "Control flow over tensors";
  let description = [{
    Branches and loops around operators of the graph dialect. Regions are single blocks that end in `flow.yield`; they may use values from
    around them. A result has the element type and rank of what is yielded for it; where its dimension is no number, its extent is that of
    the branch or iteration that was taken, and its capacity covers all of them.

    Every operation may carry what the recipe decided:

    - `placement`: `kernel` (predication, selection or a loop inside one kernel), `graph` (a conditional step of the launch plan) or `host`.
    - `unroll`: iterations that are written out one after another.
    - `depth`: how many operations of this dialect are around it.
  }];
}

class Flow_Op<string mnemonic, list<Trait> traits = []> : Op<Flow_Dialect, mnemonic, traits>;

defvar Tensor = AnyRankedTensor;

class Flow_RegionOp<string mnemonic, list<Trait> traits = []>
    : Flow_Op<mnemonic, !listconcat([SingleBlock, RecursiveMemoryEffects], traits)> {
  let results = (outs Variadic<Tensor>:$outputs);
}

def Flow_IfOp : Flow_RegionOp<"if", [NoRegionArguments]> {
  let summary = "One of two regions, chosen by an i1 scalar";
  let description = [{
    ```mlir
    %y = flow.if %c : tensor<i1> -> (tensor<4xf32>) {
      flow.yield %a : tensor<4xf32>
    } else {
      flow.yield %b : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Tensor:$condition, OptionalAttr<StrAttr>:$placement, OptionalAttr<I64Attr>:$depth);
  let regions = (region SizedRegion<1>:$then_body, SizedRegion<1>:$else_body);
  let assemblyFormat = [{
    $condition `:` type($condition) (`->` `(` type($outputs)^ `)`)? attr-dict-with-keyword $then_body `else` $else_body
  }];
}

def Flow_LoopOp : Flow_RegionOp<"loop", [AttrSizedOperandSegments]> {
  let summary = "A loop with a trip count, a condition, or both";
  let description = [{
    The body takes the iteration number (an i64 scalar, from 0) and the carried values. It yields, where the loop has a condition, whether to
    go on (an i1 scalar), then the next carried values, then an element for each scan output. Results are the last carried values, then
    the scan outputs: the elements of all iterations along a new first dimension.

    The body runs while fewer than `count` iterations are done and the condition, `while` at first, then that of the body, is true.
    `capacity` bounds the iterations: more are an error. Where a scan output has more places than there are iterations, zeros lie behind
    the elements.

    ```mlir
    %last, %all = flow.loop count(%n : tensor<i64>) while(%c : tensor<i1>) carry(%x : tensor<f32>)
        -> (tensor<f32>, tensor<8xf32, {dims = ["n"]}>) attributes {capacity = 8 : i64} {
    ^bb0(%i: tensor<i64>, %value: tensor<f32>):
      …
      flow.yield %go_on, %next, %next : tensor<i1>, tensor<f32>, tensor<f32>
    }
    ```
  }];
  let arguments = (ins Optional<Tensor>:$count, Optional<Tensor>:$condition, Variadic<Tensor>:$carried, OptionalAttr<I64Attr>:$capacity,
                       OptionalAttr<StrAttr>:$placement, OptionalAttr<I64Attr>:$unroll, OptionalAttr<I64Attr>:$depth);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`count` `(` $count^ `:` type($count) `)`)? (`while` `(` $condition^ `:` type($condition) `)`)?
    (`carry` `(` $carried^ `:` type($carried) `)`)? (`->` `(` type($outputs)^ `)`)? attr-dict-with-keyword $body
  }];
}

def Flow_ScanOp : Flow_RegionOp<"scan", [AttrSizedOperandSegments]> {
  let summary = "A loop over slices of tensors";
  let description = [{
    Every iteration takes the state and one slice of each scanned input, without the scanned dimension, and yields the next state and one
    slice of each scan output. Results are the last state, then the scan outputs. The scanned dimensions have one extent, the number of
    iterations. `input_axes` and `output_axes` name the scanned dimension of each input and output; a `1` in `input_directions` or
    `output_directions` runs from the end.

    ```mlir
    %last, %sums = flow.scan state(%zero : tensor<2xf32>) over(%x : tensor<3x2xf32>) -> (tensor<2xf32>, tensor<3x2xf32>)
        attributes {input_axes = array<i64: 0>, input_directions = array<i64: 0>, output_axes = array<i64: 0>, output_directions = array<i64: 0>} {
    ^bb0(%sum: tensor<2xf32>, %row: tensor<2xf32>):
      …
      flow.yield %next, %next : tensor<2xf32>, tensor<2xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Tensor>:$state, Variadic<Tensor>:$scanned, DenseI64ArrayAttr:$input_axes, DenseI64ArrayAttr:$input_directions,
                       DenseI64ArrayAttr:$output_axes, DenseI64ArrayAttr:$output_directions, OptionalAttr<StrAttr>:$placement,
                       OptionalAttr<I64Attr>:$unroll, OptionalAttr<I64Attr>:$depth);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`state` `(` $state^ `:` type($state) `)`)? `over` `(` $scanned `:` type($scanned) `)` (`->` `(` type($outputs)^ `)`)?
    attr-dict-with-keyword $body
  }];
}

def Flow_YieldOp : Flow_Op<"yield", [Pure, Terminator, ParentOneOf<["IfOp", "LoopOp", "ScanOp"]>]> {
  let summary = "Values that leave a region";
  let arguments = (ins Variadic<Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}
