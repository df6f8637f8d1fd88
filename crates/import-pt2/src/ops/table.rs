//! The table of operators: namespace, name without overload, importer, and what is not supported of it.

use super::*;

/// An operator and its importer.
pub(crate) struct Row {
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
    pub(crate) import: Import,
    /// What is not supported of it.
    pub(crate) limits: &'static str,
}

macro_rules! rows {
    ($($namespace:literal { $($name:literal => $import:path $(, $limits:literal)?;)* })*) => {
        pub(crate) const ROWS: &[Row] = &[$($(Row {
            namespace: $namespace,
            name: $name,
            import: $import,
            limits: concat!("", $($limits)?),
        },)*)*];
    };
}

rows! {
    "aten" {
        "__and__" => pointwise::bitwise;
        "__lshift__" => pointwise::bitwise;
        "__or__" => pointwise::bitwise;
        "__rshift__" => pointwise::bitwise;
        "__xor__" => pointwise::bitwise;
        "_adaptive_avg_pool2d" => pooling::adaptive, "sizes that are not known";
        "_adaptive_avg_pool3d" => pooling::adaptive, "sizes that are not known";
        "_assert_async" => conversion::assert_tensor, "inside branches and loops";
        "_assert_scalar" => conversion::assert_scalar, "assertions that values decide";
        "_assert_tensor_metadata" => conversion::assert_metadata;
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams" => quantization::fake;
        "_log_softmax" => activation::softmax;
        "_native_batch_norm_legit_no_training" => normalization::batch;
        "_safe_softmax" => attention::softmax_scores;
        "_scaled_dot_product_efficient_attention" => attention::attention, "dropout; the statistics";
        "_scaled_dot_product_flash_attention" => attention::attention, "dropout; the statistics";
        "_scaled_dot_product_flash_attention_for_cpu" => attention::attention, "dropout; the statistics";
        "_softmax" => activation::softmax;
        "_to_copy" => conversion::to;
        "_unsafe_index" => indexing::index, "masks of truth values";
        "_unsafe_view" => views::reshape;
        "_upsample_nearest_exact1d" => resize::upsample;
        "_upsample_nearest_exact2d" => resize::upsample;
        "_upsample_nearest_exact3d" => resize::upsample;
        "abs" => unary::number;
        "absolute" => unary::number;
        "acos" => unary::float;
        "acosh" => unary::float;
        "adaptive_avg_pool1d" => pooling::adaptive, "sizes that are not known";
        "adaptive_avg_pool2d" => pooling::adaptive, "sizes that are not known";
        "adaptive_avg_pool3d" => pooling::adaptive, "sizes that are not known";
        "adaptive_max_pool1d" => pooling::adaptive, "indices; windows of different sizes";
        "adaptive_max_pool2d" => pooling::adaptive, "indices; windows of different sizes";
        "adaptive_max_pool3d" => pooling::adaptive, "indices; windows of different sizes";
        "add" => pointwise::sum;
        "addbmm" => matmul::add_product;
        "addcdiv" => pointwise::add_combined;
        "addcmul" => pointwise::add_combined;
        "addmm" => matmul::add_product;
        "addmv" => matmul::add_product;
        "addr" => matmul::add_product;
        "alias" => conversion::alias;
        "alias_copy" => conversion::copy;
        "all" => reduction::truth;
        "alpha_dropout" => conversion::dropout, "training";
        "amax" => reduction::extremum;
        "amin" => reduction::extremum;
        "any" => reduction::truth;
        "arange" => creation::arange;
        "argmax" => reduction::arg_extremum;
        "argmin" => reduction::arg_extremum;
        "argsort" => sorting::sort, "sizes that are not known";
        "asin" => unary::float;
        "asinh" => unary::float;
        "atan" => unary::float;
        "atan2" => pointwise::direct;
        "atanh" => unary::float;
        "avg_pool1d" => pooling::windows;
        "avg_pool2d" => pooling::windows;
        "avg_pool3d" => pooling::windows;
        "baddbmm" => matmul::add_product;
        "batch_norm" => normalization::batch, "training";
        "bernoulli" => conversion::random, "all of it: there is no random number generator";
        "bilinear" => matmul::bilinear;
        "bitwise_and" => pointwise::bitwise;
        "bitwise_left_shift" => pointwise::bitwise;
        "bitwise_not" => unary::invert;
        "bitwise_or" => pointwise::bitwise;
        "bitwise_right_shift" => pointwise::bitwise;
        "bitwise_xor" => pointwise::bitwise;
        "bmm" => matmul::matmul;
        "bucketize" => indexing::bucketize;
        "cat" => joining::concat;
        "ceil" => unary::number;
        "celu" => activation::bent;
        "channel_shuffle" => joining::channel_shuffle;
        "chunk" => views::split;
        "clamp" => pointwise::clamp;
        "clamp_max" => pointwise::clamp;
        "clamp_min" => pointwise::clamp;
        "clip" => pointwise::clamp;
        "clone" => conversion::copy;
        "concat" => joining::concat;
        "concatenate" => joining::concat;
        "constant_pad_nd" => joining::pad;
        "contiguous" => conversion::contiguous;
        "conv1d" => convolution::convolution;
        "conv2d" => convolution::convolution;
        "conv3d" => convolution::convolution;
        "conv_transpose1d" => convolution::convolution;
        "conv_transpose2d" => convolution::convolution;
        "conv_transpose3d" => convolution::convolution;
        "convolution" => convolution::convolution;
        "copy" => conversion::copy_from;
        "cos" => unary::float;
        "cosh" => unary::float;
        "count_nonzero" => reduction::count;
        "cummax" => reduction::running, "indices";
        "cummin" => reduction::running, "indices";
        "cumprod" => reduction::running;
        "cumsum" => reduction::running;
        "detach" => conversion::alias;
        "detach_copy" => conversion::copy;
        "diagonal" => views::diagonal, "sizes that are not known; writing to it";
        "diff" => joining::diff;
        "div" => pointwise::divide;
        "divide" => pointwise::divide;
        "dot" => matmul::matmul;
        "dropout" => conversion::dropout, "training";
        "einsum" => matmul::einsum;
        "elu" => activation::bent;
        "embedding" => indexing::embedding;
        "empty" => creation::filled;
        "empty_like" => creation::filled;
        "eq" => pointwise::direct;
        "erf" => unary::float;
        "erfc" => unary::complement;
        "exp" => unary::float;
        "exp2" => unary::other_base;
        "expand" => views::expand;
        "expand_as" => views::expand;
        "expm1" => unary::float;
        "eye" => creation::eye;
        "fake_quantize_per_channel_affine" => quantization::fake;
        "fake_quantize_per_channel_affine_cachemask" => quantization::fake;
        "fake_quantize_per_tensor_affine" => quantization::fake;
        "fake_quantize_per_tensor_affine_cachemask" => quantization::fake;
        "feature_alpha_dropout" => conversion::dropout, "training";
        "feature_dropout" => conversion::dropout, "training";
        "fill" => creation::fill;
        "fix" => unary::number;
        "flatten" => views::flatten;
        "flip" => joining::flip;
        "fliplr" => joining::flip;
        "flipud" => joining::flip;
        "floor" => unary::number;
        "floor_divide" => pointwise::divide;
        "fmax" => pointwise::ignoring_nan;
        "fmin" => pointwise::ignoring_nan;
        "fmod" => pointwise::direct;
        "frac" => unary::complement;
        "full" => creation::filled;
        "full_like" => creation::filled;
        "gather" => indexing::gather;
        "ge" => pointwise::direct;
        "gelu" => activation::gelu;
        "glu" => activation::glu;
        "greater" => pointwise::direct;
        "greater_equal" => pointwise::direct;
        "group_norm" => normalization::group;
        "gru" => recurrent::layers, "packed sequences; dropout in training";
        "gt" => pointwise::direct;
        "hardshrink" => activation::shrink;
        "hardsigmoid" => activation::hard;
        "hardswish" => activation::hard;
        "hardtanh" => activation::hardtanh;
        "im2col" => convolution::columns, "images without batch; sizes that are not known";
        "index" => indexing::index, "masks of truth values";
        "index_add" => indexing::index_along;
        "index_copy" => indexing::index_along;
        "index_fill" => indexing::index_along;
        "index_put" => indexing::index_put, "masks of truth values with more than one number";
        "index_select" => joining::index_select;
        "instance_norm" => normalization::instance, "running statistics";
        "isclose" => pointwise::is_close, "integers; `equal_nan`";
        "isfinite" => unary::classify;
        "isinf" => unary::classify;
        "isnan" => unary::classify;
        "isneginf" => unary::classify;
        "isposinf" => unary::classify;
        "kthvalue" => sorting::kth, "sizes that are not known";
        "layer_norm" => normalization::last_dimensions;
        "le" => pointwise::direct;
        "leaky_relu" => activation::bent;
        "lerp" => pointwise::lerp;
        "less" => pointwise::direct;
        "less_equal" => pointwise::direct;
        "lift_fresh" => conversion::alias;
        "lift_fresh_copy" => conversion::copy;
        "linalg_vector_norm" => reduction::norm;
        "linear" => matmul::linear;
        "linspace" => creation::linspace, "integers";
        "log" => unary::float;
        "log10" => unary::other_base;
        "log1p" => unary::float;
        "log2" => unary::other_base;
        "log_sigmoid" => activation::by_softplus;
        "log_softmax" => activation::softmax;
        "logical_and" => pointwise::logical;
        "logical_not" => unary::invert;
        "logical_or" => pointwise::logical;
        "logical_xor" => pointwise::logical;
        "logit" => unary::logit;
        "logsumexp" => reduction::log_sum_exp;
        "lstm" => recurrent::layers, "packed sequences; dropout in training";
        "lt" => pointwise::direct;
        "mT" => views::permute;
        "masked_fill" => indexing::masked_fill;
        "masked_select" => indexing::data_dependent, "all of it: the size of the result depends on values";
        "matmul" => matmul::matmul;
        "max" => reduction::extremum;
        "max_pool1d" => pooling::windows;
        "max_pool2d" => pooling::windows;
        "max_pool2d_with_indices" => pooling::windows, "indices";
        "max_pool3d" => pooling::windows;
        "max_pool3d_with_indices" => pooling::windows, "indices";
        "maximum" => pointwise::direct;
        "mean" => reduction::arithmetic;
        "median" => sorting::kth, "sizes that are not known";
        "meshgrid" => creation::meshgrid;
        "min" => reduction::extremum;
        "minimum" => pointwise::direct;
        "mish" => activation::by_softplus;
        "mm" => matmul::matmul;
        "moveaxis" => views::permute;
        "movedim" => views::permute;
        "msort" => sorting::sort, "sizes that are not known";
        "mul" => pointwise::multiply;
        "multinomial" => conversion::random, "all of it: there is no random number generator";
        "multiply" => pointwise::multiply;
        "mv" => matmul::matmul;
        "nan_to_num" => unary::nan_to_num;
        "narrow" => views::slice;
        "native_batch_norm" => normalization::batch, "training";
        "native_dropout" => conversion::dropout, "training";
        "native_group_norm" => normalization::group;
        "native_layer_norm" => normalization::last_dimensions;
        "ne" => pointwise::direct;
        "neg" => unary::number;
        "negative" => unary::number;
        "new_empty" => creation::filled;
        "new_full" => creation::filled;
        "new_ones" => creation::filled;
        "new_zeros" => creation::filled;
        "nonzero" => indexing::data_dependent, "all of it: the size of the result depends on values";
        "norm" => reduction::norm;
        "normal" => conversion::random, "all of it: there is no random number generator";
        "not_equal" => pointwise::direct;
        "numpy_T" => views::permute;
        "one_hot" => creation::one_hot, "a number of classes that is not given";
        "ones" => creation::filled;
        "ones_like" => creation::filled;
        "outer" => matmul::outer;
        "pad" => joining::pad;
        "permute" => views::permute;
        "pixel_shuffle" => joining::pixel_shuffle;
        "pixel_unshuffle" => joining::pixel_shuffle;
        "pow" => pointwise::power;
        "prelu" => activation::prelu;
        "prod" => reduction::arithmetic;
        "rand" => conversion::random, "all of it: there is no random number generator";
        "rand_like" => conversion::random, "all of it: there is no random number generator";
        "randint" => conversion::random, "all of it: there is no random number generator";
        "randn" => conversion::random, "all of it: there is no random number generator";
        "randn_like" => conversion::random, "all of it: there is no random number generator";
        "randperm" => conversion::random, "all of it: there is no random number generator";
        "ravel" => views::flatten;
        "reciprocal" => unary::float;
        "reflection_pad1d" => joining::pad;
        "reflection_pad2d" => joining::pad;
        "reflection_pad3d" => joining::pad;
        "relu" => activation::relu;
        "relu6" => activation::hardtanh;
        "remainder" => pointwise::direct;
        "repeat" => joining::repeat;
        "repeat_interleave" => joining::repeat_interleave, "a number of repetitions for each element";
        "replication_pad1d" => joining::pad;
        "replication_pad2d" => joining::pad;
        "replication_pad3d" => joining::pad;
        "reshape" => views::reshape;
        "reshape_as" => views::reshape;
        "rms_norm" => normalization::last_dimensions;
        "rnn_relu" => recurrent::layers, "packed sequences; dropout in training";
        "rnn_tanh" => recurrent::layers, "packed sequences; dropout in training";
        "roll" => joining::roll, "sizes that are not known";
        "round" => unary::round;
        "rrelu" => conversion::rrelu, "training";
        "rsqrt" => unary::float;
        "rsub" => pointwise::sum;
        "scalar_tensor" => creation::filled;
        "scaled_dot_product_attention" => attention::attention, "dropout";
        "scatter" => indexing::scatter;
        "scatter_add" => indexing::scatter;
        "scatter_reduce" => indexing::scatter, "`include_self` = false; means";
        "searchsorted" => indexing::bucketize, "sequences of more than one dimension";
        "select" => views::select;
        "select_copy" => views::select;
        "select_scatter" => indexing::slice_scatter;
        "selu" => activation::bent;
        "sgn" => unary::number;
        "sigmoid" => unary::float;
        "sign" => unary::number;
        "silu" => activation::silu;
        "sin" => unary::float;
        "sinh" => unary::float;
        "slice" => views::slice;
        "slice_copy" => views::slice;
        "slice_scatter" => indexing::slice_scatter, "steps";
        "softmax" => activation::softmax;
        "softplus" => activation::softplus;
        "softshrink" => activation::shrink;
        "sort" => sorting::sort, "sizes that are not known";
        "split" => views::split;
        "split_with_sizes" => views::split;
        "split_with_sizes_copy" => views::split;
        "sqrt" => unary::float;
        "square" => unary::number;
        "squeeze" => views::squeeze;
        "stack" => joining::stack;
        "std" => reduction::spread;
        "std_mean" => reduction::spread;
        "sub" => pointwise::sum;
        "subtract" => pointwise::sum;
        "sum" => reduction::arithmetic;
        "swapaxes" => views::permute;
        "swapdims" => views::permute;
        "sym_constrain_range" => conversion::constrain_range;
        "sym_constrain_range_for_size" => conversion::constrain_range;
        "t" => views::permute;
        "take" => indexing::gather;
        "take_along_dim" => indexing::gather;
        "tan" => unary::float;
        "tanh" => unary::float;
        "tensor_split" => views::split, "unequal parts";
        "threshold" => activation::shrink;
        "tile" => joining::repeat;
        "to" => conversion::to;
        "topk" => sorting::top_k, "a k that is not known";
        "transpose" => views::permute;
        "tril" => creation::triangle;
        "triu" => creation::triangle;
        "true_divide" => pointwise::divide;
        "trunc" => unary::number;
        "type_as" => conversion::to;
        "unbind" => views::unbind, "sizes that are not known";
        "unbind_copy" => views::unbind, "sizes that are not known";
        "unflatten" => views::unflatten;
        "unfold" => views::unfold, "sizes that are not known; writing to it";
        "unique_consecutive" => indexing::data_dependent, "all of it: the size of the result depends on values";
        "unsafe_chunk" => views::split;
        "unsafe_split" => views::split;
        "unsqueeze" => views::unsqueeze;
        "upsample_bicubic2d" => resize::upsample;
        "upsample_bilinear2d" => resize::upsample;
        "upsample_linear1d" => resize::upsample;
        "upsample_nearest1d" => resize::upsample;
        "upsample_nearest2d" => resize::upsample;
        "upsample_nearest3d" => resize::upsample;
        "upsample_trilinear3d" => resize::upsample;
        "var" => reduction::spread;
        "var_mean" => reduction::spread;
        "view" => views::reshape, "another element type";
        "view_as" => views::reshape;
        "where" => pointwise::select, "without values: the size of the result depends on the condition";
        "zero" => creation::fill;
        "zeros" => creation::filled;
        "zeros_like" => creation::filled;
    }
    "higher_order" {
        "cond" => control::cond;
        "map_impl" => control::scan;
        "scan" => control::scan;
        "while_loop" => control::while_loop;
    }
    "quantized_decomposed" {
        "convert_element_type" => quantization::convert;
        "dequantize_per_channel" => quantization::dequantize;
        "dequantize_per_channel_group" => quantization::dequantize_rows, "dimensions that are not known";
        "dequantize_per_tensor" => quantization::dequantize;
        "dequantize_per_token" => quantization::dequantize_rows;
        "fake_quant_per_channel" => quantization::fake;
        "quantize_per_channel" => quantization::quantize;
        "quantize_per_channel_group" => quantization::quantize_rows, "dimensions that are not known";
        "quantize_per_tensor" => quantization::quantize;
        "quantize_per_token" => quantization::quantize_rows;
    }
}

/// An operator that can be imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupportedOperator {
    /// Library, `aten`.
    pub namespace: &'static str,
    /// Name without overload; the operator in place (`relu_`) is supported where this one is.
    pub name: &'static str,
    /// What is not supported of it; empty: nothing is missing.
    pub limits: &'static str,
}

/// All operators that can be imported, by name.
pub fn supported_operators() -> Vec<SupportedOperator> {
    let row = |row: &Row| SupportedOperator { namespace: row.namespace, name: row.name, limits: row.limits };
    ROWS.iter().map(row).collect()
}

/// The table as a Markdown page, `docs/aten-operators.md`.
pub fn operator_table() -> String {
    let mut page = String::from(
        "# Operators of torch.export\n\nOperators that are imported, with all their overloads; where one is here, its variant in place (`relu_`) is \
         imported too. This page is generated from the table of operators.\n",
    );
    let mut namespace = None;
    for row in ROWS {
        if namespace != Some(row.namespace) {
            namespace = Some(row.namespace);
            page.push_str(&format!("\n## {}\n\n| operator | not supported |\n|---|---|\n", row.namespace));
        }
        page.push_str(&format!("| {} | {} |\n", row.name, row.limits));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_known_to_torch() {
        assert!(ROWS.windows(2).all(|pair| (pair[0].namespace, pair[0].name) < (pair[1].namespace, pair[1].name)));
        let known = include_str!("../schemas.txt");
        for row in ROWS.iter().filter(|row| row.namespace != "higher_order") {
            let name = format!("{}::{}", row.namespace, row.name);
            let is_known = |line: &str| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['(', '.']));
            assert!(known.lines().any(is_known), "{name} is in no schema");
        }
    }
}
