//! Operators that are refused for what they are: no functions of numeric tensors at inference.

const STRINGS: &str = "it works on strings, which no GPU program holds";
const IMAGES: &str = "compressed images are decoded before the model runs";
const TRAINING: &str = "gradients are for training, and models are compiled for inference";
const MAPS: &str = "its values are maps, not tensors";

/// Domain, operator, why it is refused.
const OUT_OF_SCOPE: &[(&str, &str, &str)] = &[
    ("", "ImageDecoder", IMAGES),
    ("", "RegexFullMatch", STRINGS),
    ("", "StringConcat", STRINGS),
    ("", "StringNormalizer", STRINGS),
    ("", "StringSplit", STRINGS),
    ("ai.onnx.ml", "CastMap", MAPS),
    ("ai.onnx.ml", "CategoryMapper", STRINGS),
    ("ai.onnx.ml", "DictVectorizer", MAPS),
    ("ai.onnx.ml", "ZipMap", MAPS),
    ("ai.onnx.preview.training", "Gradient", TRAINING),
];

/// Why an operator is out of scope, if it is.
pub(super) fn reason(domain: &str, name: &str) -> Option<&'static str> {
    OUT_OF_SCOPE.iter().find(|row| (row.0, row.1) == (domain, name)).map(|row| row.2)
}
