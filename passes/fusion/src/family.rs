//! Kernel families.

use tenon_graph_dialect::operators::Convolution;
use tenon_graph_dialect::{Operator, TensorType};

/// Which family of schedules implements a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Each element of the result from some elements of the operands: elementwise, data movement, pooling, depthwise convolution.
    Map,
    /// Reductions, softmax, normalisation along axes.
    Reduce,
    /// Sums of products.
    Contract,
    /// Convolution, but for depthwise.
    Convolution,
    /// Cumulative reductions.
    Scan,
    /// Writing by index.
    Scatter,
    /// Largest or smallest elements.
    TopK,
    /// Scaled dot-product attention.
    Attention,
    /// Greedy choice of boxes.
    NonMaxSuppression,
    /// The steps of a recurrent layer.
    Recurrence,
}

impl Family {
    /// All families.
    const ALL: [Family; 10] = [
        Family::Map,
        Family::Reduce,
        Family::Contract,
        Family::Convolution,
        Family::Scan,
        Family::Scatter,
        Family::TopK,
        Family::Attention,
        Family::NonMaxSuppression,
        Family::Recurrence,
    ];

    /// The family of a word of the assembly.
    pub(crate) fn by_name(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }

    /// The word in the assembly.
    pub fn name(self) -> &'static str {
        match self {
            Family::Map => "map",
            Family::Reduce => "reduce",
            Family::Contract => "contract",
            Family::Convolution => "convolution",
            Family::Scan => "scan",
            Family::Scatter => "scatter",
            Family::TopK => "top_k",
            Family::Attention => "attention",
            Family::NonMaxSuppression => "non_max_suppression",
            Family::Recurrence => "recurrence",
        }
    }

    /// Family of an operator's kernel; `None` for what needs no kernel: literals, and reshapes and cuts, which are views.
    pub(crate) fn of(operator: &Operator, operands: &[TensorType]) -> Option<Family> {
        Some(match operator {
            Operator::Constant(_) | Operator::Reshape(_) | Operator::SetDimensionSize(_) => return None,
            Operator::Contract(_) => Family::Contract,
            Operator::Convolution(convolution) if !is_depthwise(convolution, operands) => Family::Convolution,
            Operator::Reduce(_) | Operator::ArgReduce(_) | Operator::Softmax(_) | Operator::Normalize(_) => {
                Family::Reduce
            }
            Operator::Scan(_) => Family::Scan,
            Operator::Scatter(_) => Family::Scatter,
            Operator::TopK(_) => Family::TopK,
            Operator::Attention(_) => Family::Attention,
            Operator::NonMaxSuppression(_) => Family::NonMaxSuppression,
            Operator::Recurrence(_) => Family::Recurrence,
            Operator::Iota(_)
            | Operator::DimExtent(_)
            | Operator::Elementwise(_)
            | Operator::Cast(_)
            | Operator::Bitcast(_)
            | Operator::Convolution(_)
            | Operator::Window(_)
            | Operator::Resize(_)
            | Operator::Gather(_)
            | Operator::Quantize(_)
            | Operator::Dequantize(_)
            | Operator::Transpose(_)
            | Operator::Broadcast(_)
            | Operator::Slice(_)
            | Operator::Pad(_)
            | Operator::Concat(_)
            | Operator::SearchSorted(_) => Family::Map,
        })
    }

    /// Whether the kernel may go on with elementwise operators on its result.
    pub(crate) fn takes_epilogue(self) -> bool {
        matches!(self, Family::Reduce | Family::Contract | Family::Convolution)
    }
}

/// One filter a channel: nothing is summed over channels.
fn is_depthwise(convolution: &Convolution, operands: &[TensorType]) -> bool {
    let channels_per_group = operands.get(1).and_then(|weight| weight.dims.get(1)).and_then(|dim| dim.known());
    !convolution.transposed && convolution.groups > 1 && channels_per_group == Some(1)
}

/// Whether each element of the result follows from the elements at the same place, with broadcasting.
pub(crate) fn is_pointwise(operator: &Operator) -> bool {
    match operator {
        Operator::Elementwise(_) | Operator::Cast(_) | Operator::Bitcast(_) => true,
        Operator::Quantize(quantize) => quantize.block_size == 0,
        Operator::Dequantize(dequantize) => dequantize.block_size == 0,
        _ => false,
    }
}

/// Short name of an operator in a kernel's name.
pub(crate) fn short_name(operator: &Operator) -> String {
    match operator {
        Operator::Elementwise(elementwise) => elementwise.function.name().to_owned(),
        Operator::Reduce(reduce) => reduce.kind.name().to_owned(),
        Operator::Window(window) => format!("{}_pool", window.kind.name()),
        other => other.name().trim_start_matches("graph.").to_owned(),
    }
}
