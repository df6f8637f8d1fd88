//! The table of operators: name, domain where it is not ONNX's own, versions, importer.
//!
//! `versions` are the versions of the operator set that changed the operator, as the operator list gives them, from the one that held in
//! version 7 on. An importer sees the one that holds for its model as `since`.

use super::*;

/// An operator and its importer.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) domain: &'static str,
    pub(crate) versions: &'static [i64],
    /// The version that removed the operator.
    pub(crate) removed: Option<i64>,
    pub(crate) import: Import,
    /// What is not supported of it.
    pub(crate) limits: &'static str,
}

macro_rules! rows {
    ($($name:literal $(in $domain:literal)? [$($version:literal),+] $(removed $removed:literal)? => $import:path $(, $limits:literal)?;)*) => {
        pub(crate) const ROWS: &[Row] = &[$(Row {
            name: $name,
            domain: concat!("", $($domain)?),
            versions: &[$($version),+],
            removed: rows!(@option $($removed)?),
            import: $import,
            limits: concat!("", $($limits)?),
        }),*];
    };
    (@option) => { None };
    (@option $value:literal) => { Some($value) };
}

rows! {
    "Abs" [6, 13] => elementwise::direct;
    "Acos" [7, 22] => elementwise::direct;
    "Acosh" [9, 22] => elementwise::direct;
    "Add" [7, 13, 14] => elementwise::direct;
    "AffineGrid" [20] => grid_sample::affine_grid;
    "And" [7] => elementwise::direct;
    "ArgMax" [1, 11, 12, 13] => arg_reduce::arg_reduce;
    "ArgMin" [1, 11, 12, 13] => arg_reduce::arg_reduce;
    "Asin" [7, 22] => elementwise::direct;
    "Asinh" [9, 22] => elementwise::direct;
    "Atan" [7, 22] => elementwise::direct;
    "Atanh" [9, 22] => elementwise::direct;
    "Attention" [23, 24, 25] => attention::attention, "Q, K and V of several element types";
    "AveragePool" [7, 10, 11, 19, 22] => pool::average_pool;
    "BatchNormalization" [7, 9, 14, 15] => normalization::batch, "`spatial` = 0; the outputs of training mode before version 14";
    "Bernoulli" [15, 22] => random::bernoulli, "nodes without a seed";
    "BitCast" [26] => cast::bitcast;
    "BitShift" [11, 28] => elementwise::bit_shift;
    "BitwiseAnd" [18] => elementwise::direct;
    "BitwiseNot" [18] => elementwise::direct;
    "BitwiseOr" [18] => elementwise::direct;
    "BitwiseXor" [18] => elementwise::direct;
    "BlackmanWindow" [17] => window_function::window_function;
    "Cast" [6, 9, 13, 19, 21, 23, 24, 25, 28] => cast::cast, "strings";
    "CastLike" [15, 19, 21, 23, 24, 25] => cast::cast_like, "strings";
    "CausalConvWithState" [27] => causal_convolution::causal_conv_with_state;
    "Ceil" [6, 13] => elementwise::direct;
    "Celu" [12, 28] => activation::celu;
    "CenterCropPad" [18] => center_crop_pad::center_crop_pad;
    "Clip" [6, 11, 12, 13] => activation::clip;
    "Col2Im" [18] => col2im::col2im, "shapes that are not known before the model runs";
    "Compress" [9, 11, 28] => selection::compress;
    "Concat" [4, 11, 13] => concat::concat;
    "ConcatFromSequence" [11] => sequence::concat, "an empty sequence";
    "Constant" [1, 9, 11, 12, 13, 19, 21, 23, 24, 25] => constant::constant, "sparse tensors, strings";
    "ConstantOfShape" [9, 20, 21, 23, 24, 25] => fill::constant_of_shape;
    "Conv" [1, 11, 22] => convolution::conv;
    "ConvInteger" [10] => integer_product::conv_integer;
    "ConvTranspose" [1, 11, 22] => convolution::conv_transpose;
    "Cos" [7, 22] => elementwise::direct;
    "Cosh" [9, 22] => elementwise::direct;
    "CumProd" [26] => cumulative::cumulative;
    "CumSum" [11, 14] => cumulative::cumulative;
    "DFT" [17, 20] => fourier::dft, "transforms whose matrix has more than 2^24 elements; the inverse of a whole spectrum";
    "DeformConv" [19, 22] => deform_conv::deform_conv, "more than three spatial dimensions";
    "DepthToSpace" [1, 11, 13, 28] => space_depth::depth_to_space;
    "DequantizeLinear" [10, 13, 19, 21, 23, 24, 25, 28] => quantize::dequantize;
    "Det" [11, 22] => determinant::determinant, "matrices of more than 64 rows";
    "Div" [7, 13, 14] => elementwise::direct;
    "Dropout" [7, 10, 12, 13, 22] => dropout::dropout, "training mode";
    "DynamicQuantizeLinear" [11] => quantize::dynamic;
    "Einsum" [12, 28] => einsum::einsum;
    "Elu" [6, 22] => activation::elu;
    "Equal" [7, 11, 13, 19] => elementwise::direct, "strings";
    "Erf" [9, 13] => elementwise::direct;
    "Exp" [6, 13] => elementwise::direct;
    "Expand" [8, 13] => fill::expand;
    "EyeLike" [9, 22] => fill::eye_like;
    "Flatten" [1, 9, 11, 13, 21, 23, 24, 25] => reshape::flatten;
    "Floor" [6, 13] => elementwise::direct;
    "GRU" [7, 14, 22] => recurrent::gru;
    "Gather" [1, 11, 13] => gather::take;
    "GatherElements" [11, 13] => gather::elements;
    "GatherND" [11, 12, 13] => gather::nd;
    "Gelu" [20] => activation::gelu;
    "Gemm" [7, 9, 11, 13] => matmul::gemm;
    "GlobalAveragePool" [1, 22] => pool::global;
    "GlobalLpPool" [2, 22] => pool::global;
    "GlobalMaxPool" [1, 22] => pool::global;
    "Greater" [7, 9, 13] => elementwise::direct;
    "GreaterOrEqual" [12, 16] => elementwise::direct;
    "GridSample" [16, 20, 22] => grid_sample::grid_sample, "more than three spatial dimensions";
    "GroupNormalization" [21] => normalization::group;
    "HammingWindow" [17] => window_function::window_function;
    "HannWindow" [17] => window_function::window_function;
    "HardSigmoid" [6, 22] => activation::hard_sigmoid;
    "HardSwish" [14, 22] => activation::hard_swish;
    "Hardmax" [1, 11, 13] => softmax::hardmax;
    "Identity" [1, 13, 14, 16, 19, 21, 23, 24, 25] => sequence::identity;
    "If" [1, 11, 13, 16, 19, 21, 23, 24, 25] => control::branch, "branches whose results differ in more than the size of the first dimension, where the condition is not known before the model runs";
    "InstanceNormalization" [6, 22] => normalization::instance;
    "IsInf" [10, 20] => elementwise::is_inf;
    "IsNaN" [9, 13, 20] => elementwise::direct;
    "LRN" [1, 13] => normalization::local_response;
    "LSTM" [7, 14, 22] => recurrent::lstm;
    "LayerNormalization" [17] => normalization::layer, "`stash_type` other than f32";
    "LeakyRelu" [6, 16] => activation::leaky_relu;
    "Less" [7, 9, 13] => elementwise::direct;
    "LessOrEqual" [12, 16] => elementwise::direct;
    "LinearAttention" [27] => linear_attention::linear_attention, "more than 256 time steps";
    "Log" [6, 13] => elementwise::direct;
    "LogSoftmax" [1, 11, 13] => softmax::softmax;
    "Loop" [1, 11, 13, 16, 19, 21, 23, 24, 25] => control::repeat, "carried values whose shape changes, where the number of iterations is not known before the model runs";
    "LpNormalization" [1, 22] => normalization::lp;
    "LpPool" [2, 11, 18, 22] => pool::lp_pool;
    "MatMul" [1, 9, 13] => matmul::matmul;
    "MatMulInteger" [10] => integer_product::matmul_integer;
    "Max" [6, 8, 12, 13] => variadic::variadic;
    "MaxPool" [1, 8, 10, 11, 12, 22] => pool::max_pool;
    "MaxUnpool" [9, 11, 22] => unpool::max_unpool;
    "Mean" [6, 8, 13] => variadic::variadic;
    "MeanVarianceNormalization" [9, 13] => normalization::mean_variance;
    "MelWeightMatrix" [17] => mel_weight_matrix::mel_weight_matrix;
    "Min" [6, 8, 12, 13] => variadic::variadic;
    "Mish" [18, 22] => activation::mish;
    "Mod" [10, 13, 28] => elementwise::modulo;
    "Mul" [7, 13, 14] => elementwise::direct;
    "Multinomial" [7, 22] => random::multinomial, "nodes without a seed";
    "Neg" [6, 13] => elementwise::direct;
    "NegativeLogLikelihoodLoss" [12, 13, 22] => loss::negative_log_likelihood;
    "NonMaxSuppression" [10, 11] => non_max_suppression::non_max_suppression;
    "NonZero" [9, 13] => selection::non_zero;
    "Not" [1] => elementwise::direct;
    "OneHot" [9, 11, 28] => one_hot::one_hot, "a depth that is not known before the model runs";
    "Optional" [15, 28] => sequence::optional;
    "OptionalGetElement" [15, 18, 28] => sequence::get_element;
    "OptionalHasElement" [15, 18, 28] => sequence::has_element;
    "Or" [7] => elementwise::direct;
    "PRelu" [7, 9, 16] => activation::prelu;
    "Pad" [2, 11, 13, 18, 19, 21, 23, 24, 25] => pad::pad;
    "Pow" [7, 12, 13, 15] => elementwise::power;
    "QLinearConv" [10] => integer_product::qlinear_conv;
    "QLinearMatMul" [10, 21] => integer_product::qlinear_matmul;
    "QuantizeLinear" [10, 13, 19, 21, 23, 24, 25, 28] => quantize::quantize;
    "RMSNormalization" [23] => normalization::rms, "`stash_type` other than f32";
    "RNN" [7, 14, 22] => recurrent::rnn;
    "RandomNormal" [1, 22] => random::normal, "nodes without a seed";
    "RandomNormalLike" [1, 22] => random::normal, "nodes without a seed";
    "RandomUniform" [1, 22] => random::uniform, "nodes without a seed";
    "RandomUniformLike" [1, 22] => random::uniform, "nodes without a seed";
    "Range" [11, 27] => fill::range;
    "Reciprocal" [6, 13] => elementwise::direct;
    "ReduceL1" [1, 11, 13, 18] => reduce::reduce;
    "ReduceL2" [1, 11, 13, 18] => reduce::reduce;
    "ReduceLogSum" [1, 11, 13, 18, 28] => reduce::reduce;
    "ReduceLogSumExp" [1, 11, 13, 18, 28] => reduce::reduce;
    "ReduceMax" [1, 11, 12, 13, 18, 20] => reduce::reduce;
    "ReduceMean" [1, 11, 13, 18] => reduce::reduce;
    "ReduceMin" [1, 11, 12, 13, 18, 20] => reduce::reduce;
    "ReduceProd" [1, 11, 13, 18] => reduce::reduce;
    "ReduceSum" [1, 11, 13] => reduce::reduce;
    "ReduceSumSquare" [1, 11, 13, 18] => reduce::reduce;
    "Relu" [6, 13, 14] => activation::relu;
    "Reshape" [5, 13, 14, 19, 21, 23, 24, 25] => reshape::reshape;
    "Resize" [10, 11, 13, 18, 19] => resize::resize, "`antialias` = 1 of free dimensions";
    "ReverseSequence" [10, 28] => reverse_sequence::reverse_sequence;
    "RoiAlign" [10, 16, 22] => roi_align::roi_align, "`sampling_ratio` = 0";
    "RotaryEmbedding" [23] => rotary_embedding::rotary_embedding;
    "Round" [11, 22] => elementwise::direct;
    "STFT" [17] => fourier::stft, "transforms whose matrix has more than 2^24 elements";
    "Scan" [8, 9, 11, 16, 19, 21, 23, 24, 25] => control::scan, "dimensions that are not fixed; `sequence_lens`";
    "Scatter" [9] removed 11 => scatter::elements;
    "ScatterElements" [11, 13, 16, 18] => scatter::elements;
    "ScatterND" [11, 13, 16, 18] => scatter::nd;
    "Selu" [6, 22] => activation::selu;
    "SequenceAt" [11] => sequence::at, "positions that are not known before the model runs";
    "SequenceConstruct" [11] => sequence::construct;
    "SequenceEmpty" [11] => sequence::empty;
    "SequenceErase" [11] => sequence::erase, "positions that are not known before the model runs";
    "SequenceInsert" [11] => sequence::insert, "positions that are not known before the model runs";
    "SequenceLength" [11] => sequence::length;
    "SequenceMap" [17] => sequence::map;
    "Shape" [1, 13, 15, 19, 21, 23, 24, 25] => shape::shape;
    "Shrink" [9] => activation::shrink;
    "Sigmoid" [6, 13] => elementwise::direct;
    "Sign" [9, 13] => elementwise::direct;
    "Sin" [7, 22] => elementwise::direct;
    "Sinh" [9, 22] => elementwise::direct;
    "Size" [1, 13, 19, 21, 23, 24, 25] => shape::size;
    "Slice" [1, 10, 11, 13] => slice::slice;
    "Softmax" [1, 11, 13] => softmax::softmax;
    "SoftmaxCrossEntropyLoss" [12, 13] => loss::softmax_cross_entropy;
    "Softplus" [1, 22] => activation::softplus;
    "Softsign" [1, 22] => activation::softsign;
    "SpaceToDepth" [1, 13, 28] => space_depth::space_to_depth;
    "Split" [2, 11, 13, 18] => split::split;
    "SplitToSequence" [11, 24] => sequence::split, "sizes that are not known before the model runs";
    "Sqrt" [6, 13] => elementwise::direct;
    "Squeeze" [1, 11, 13, 21, 23, 24, 25] => reshape::squeeze;
    "Sub" [7, 13, 14] => elementwise::direct;
    "Sum" [6, 8, 13] => variadic::variadic;
    "SwiGLU" [28] => activation::swiglu;
    "Swish" [24] => activation::swish;
    "Tan" [7, 22] => elementwise::direct;
    "Tanh" [6, 13] => elementwise::direct;
    "TensorScatter" [24] => tensor_scatter::tensor_scatter;
    "TfIdfVectorizer" [9] => tf_idf::tf_idf_vectorizer, "strings";
    "ThresholdedRelu" [10, 22] => activation::thresholded_relu;
    "Tile" [6, 13] => fill::tile;
    "TopK" [1, 10, 11, 24] => top_k::top_k;
    "Transpose" [1, 13, 21, 23, 24, 25] => transpose::transpose;
    "Trilu" [14] => fill::trilu;
    "Unique" [11, 28] => unique::unique;
    "Unsqueeze" [1, 11, 13, 21, 23, 24, 25] => reshape::unsqueeze;
    "Upsample" [7, 9] removed 10 => resize::upsample;
    "Where" [9, 16] => elementwise::direct;
    "Xor" [7] => elementwise::direct;
    "ArrayFeatureExtractor" in "ai.onnx.ml" [1] => classical::array_feature_extractor;
    "Binarizer" in "ai.onnx.ml" [1] => classical::binarizer;
    "Scaler" in "ai.onnx.ml" [1] => classical::scaler;
    "TreeEnsemble" in "ai.onnx.ml" [5] => tree_ensemble::tree_ensemble, "`post_transform` 3 and 4; trees of more than 256 levels";
    "FlexAttention" in "ai.onnx.preview" [1] => flex_attention::flex_attention;
    "Adagrad" in "ai.onnx.preview.training" [1] => training::adagrad;
    "Adam" in "ai.onnx.preview.training" [1] => training::adam;
    "Momentum" in "ai.onnx.preview.training" [1] => training::momentum;
    "Attention" in "com.microsoft" [1] => microsoft::attention::attention,
        "`do_rotary` = 1; a past that shares its memory with the present; masks of four dimensions or for packed input";
    "BiasGelu" in "com.microsoft" [1] => microsoft::gelu::gelu;
    "DynamicQuantizeLSTM" in "com.microsoft" [1] => recurrent::dynamic_quantize_lstm, "sequences whose length is not fixed";
    "DynamicQuantizeMatMul" in "com.microsoft" [1] => microsoft::quantized::dynamic_quantize_matmul;
    "EmbedLayerNormalization" in "com.microsoft" [1] => microsoft::embed_layer_normalization::embed_layer_normalization;
    "FastGelu" in "com.microsoft" [1] => microsoft::gelu::fast_gelu;
    "FusedMatMul" in "com.microsoft" [1] => microsoft::fused_matmul::fused_matmul;
    "Gelu" in "com.microsoft" [1] => microsoft::gelu::gelu;
    "GroupQueryAttention" in "com.microsoft" [1] => microsoft::group_query_attention::group_query_attention,
        "`smooth_softmax` = 1; sinks; quantised caches; the output `output_qk`; a cache whose size is not known before the model runs";
    "MatMulIntegerToFloat" in "com.microsoft" [1] => microsoft::quantized::matmul_integer_to_float;
    "MatMulNBits" in "com.microsoft" [1] => microsoft::quantized::matmul_nbits, "the input `g_idx`";
    "MultiHeadAttention" in "com.microsoft" [1] => microsoft::multi_head_attention::multi_head_attention,
        "packed operands; a past that shares its memory with the present; the output `qk`";
    "QAttention" in "com.microsoft" [1] => microsoft::attention::quantized_attention, "what Attention lacks";
    "QLinearAdd" in "com.microsoft" [1] => microsoft::qlinear::binary;
    "QLinearConcat" in "com.microsoft" [1] => microsoft::qlinear::concat;
    "QLinearGlobalAveragePool" in "com.microsoft" [1] => microsoft::qlinear::global_average_pool;
    "QLinearLeakyRelu" in "com.microsoft" [1] => microsoft::qlinear::unary;
    "QLinearMul" in "com.microsoft" [1] => microsoft::qlinear::binary;
    "QLinearSigmoid" in "com.microsoft" [1] => microsoft::qlinear::unary;
    "QLinearSoftmax" in "com.microsoft" [1] => microsoft::qlinear::softmax, "a softmax along several axes";
    "QuickGelu" in "com.microsoft" [1] => microsoft::gelu::quick_gelu;
    "RotaryEmbedding" in "com.microsoft" [1] => microsoft::rotary_embedding::rotary_embedding,
        "packed batches; `scale` other than 1";
    "SkipLayerNormalization" in "com.microsoft" [1] => microsoft::skip_layer_normalization::skip_layer_normalization,
        "the statistics";
    "SkipSimplifiedLayerNormalization" in "com.microsoft" [1] => microsoft::skip_layer_normalization::skip_layer_normalization,
        "the statistics";
}

/// An operator that can be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupportedOperator {
    /// Name.
    pub name: &'static str,
    /// Domain; empty for ONNX's own.
    pub domain: &'static str,
    /// Versions of the operator.
    pub versions: &'static [i64],
    /// Operator set that removed it.
    pub removed: Option<i64>,
    /// What is not supported of it; empty: nothing is missing.
    pub limits: &'static str,
}

/// All operators that can be imported, by name.
pub fn supported_operators() -> Vec<SupportedOperator> {
    let row = |row: &Row| SupportedOperator {
        name: row.name,
        domain: row.domain,
        versions: row.versions,
        removed: row.removed,
        limits: row.limits,
    };
    ROWS.iter().map(row).collect()
}

/// What the page says of values that point at places.
const PLACES: &str = "
## Values that point at places

Indices and lengths that are known when the model is compiled are held against the sizes that they address, and refused with the node, the value and
the size where they lie outside (E0132, E0134); where the size is known to a request only, so is whether it fits (E0185, E0724). Values that are known
only when the model runs are not checked, since the host would have to wait for each. They touch no memory outside of the tensor:

| operators | a value outside, at run time |
|---|---|
| Gather, GatherElements, GatherND, ArrayFeatureExtractor, EmbedLayerNormalization | reads the nearest element: below -size the first, from size on the last |
| Scatter, ScatterElements, ScatterND | its update is left out |
| OneHot | a row of the value for off, as the operator says |
| TensorScatter | steps that would lie outside are left out; in the mode `circular` none does |
| RNN, GRU, LSTM, DynamicQuantizeLSTM: `sequence_lens` | below 0 it is 0, above the number of steps it is that |

A row whose `sequence_lens` is 0 has zeros in Y, and its initial state in Y_h and Y_c: the state after no step. The specification of ONNX says nothing of such
rows; ONNX Runtime gives zeros there.
";

/// The table as a Markdown page, `docs/onnx-operators.md`.
pub fn operator_table() -> String {
    let mut page = String::from(
        "# ONNX operators\n\nOperators that are imported, with the versions of the operator set that changed them. This page is generated from \
         the table of operators.\n",
    );
    let mut domain = None;
    for row in ROWS {
        if domain != Some(row.domain) {
            domain = Some(row.domain);
            let title = if row.domain.is_empty() { "ai.onnx" } else { row.domain };
            page.push_str(&format!("\n## {title}\n\n| operator | versions | not supported |\n|---|---|---|\n"));
        }
        let mut versions: Vec<String> = row.versions.iter().map(ToString::to_string).collect();
        if let Some(removed) = row.removed {
            versions.push(format!("removed in {removed}"));
        }
        page.push_str(&format!("| {} | {} | {} |\n", row.name, versions.join(", "), row.limits));
    }
    page.push_str(PLACES);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opsets::NEWEST_OPSET;

    #[test]
    fn rows_are_in_order_and_versions_ascend() {
        assert!(ROWS.windows(2).all(|pair| (pair[0].domain, pair[0].name) < (pair[1].domain, pair[1].name)));
        for row in ROWS {
            assert!(row.versions.windows(2).all(|pair| pair[0] < pair[1]), "{}", row.name);
            assert!(row.versions.iter().all(|version| (1..=NEWEST_OPSET).contains(version)), "{}", row.name);
            // At most one version is of operator set 7 or older: the one that holds in 7.
            assert!(row.versions.iter().filter(|version| **version <= 7).count() <= 1, "{}", row.name);
        }
    }
}
