//! One file an operator: its attributes, how they are written, and its result types.

mod attributes;
mod structure;

macro_rules! files {
    ($($file:ident: $($name:ident),+;)*) => { $(mod $file; pub use $file::{$($name),+};)* };
}

files! {
    arg_reduce: ArgReduce;
    attention: Attention, Causal;
    bitcast: Bitcast;
    broadcast: Broadcast;
    cast: Cast;
    concat: Concat;
    constant: Constant;
    contract: Contract;
    convolution: Convolution;
    dim: DimExtent;
    elementwise: Elementwise, Function;
    gather: Gather, GatherKind;
    iota: Iota;
    non_max_suppression: NonMaxSuppression;
    normalize: Normalize, NormalizeKind;
    pad: Pad, PadMode;
    quantize: Dequantize, Quantize;
    recurrence: Activation, ActivationFunction, CellCode, CellState, Recurrence, RecurrenceKind, RecurrenceOperand, StepEmitter;
    reduce: Reduce, ReduceKind;
    reshape: Reshape;
    resize: CoordinateMode, Resize, ResizeMode, ResizeRounding;
    scan: Scan, ScanKind;
    scatter: Combine, Scatter, ScatterKind;
    search_sorted: SearchSorted;
    set_dimension_size: SetDimensionSize;
    slice: Slice;
    softmax: Softmax;
    top_k: TopK;
    transpose: Transpose;
    window: Window, WindowKind;
}

pub use structure::broadcast_dims;
pub(crate) use structure::*;
