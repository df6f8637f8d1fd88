// The same with a bias and GELU by erf on what it gives.
module {
  func.func @main(%a: tensor<1280x1280xf16> {graph.name = "a"}, %b: tensor<1280x1280xf16> {graph.name = "b"}, %bias: tensor<1280xf16> {graph.name = "bias"}) -> (tensor<1280x1280xf16> {graph.name = "c"}) {
    %half = graph.constant dense<0.5> : tensor<f16> -> tensor<f16>
    %one = graph.constant dense<1.0> : tensor<f16> -> tensor<f16>
    %root = graph.constant dense<0.70710678> : tensor<f16> -> tensor<f16>
    %0 = graph.contract "mk,kn->mn"(%a, %b) accumulate f32 : (tensor<1280x1280xf16>, tensor<1280x1280xf16>) -> tensor<1280x1280xf16> loc("matmul")
    %1 = graph.elementwise add(%0, %bias) : (tensor<1280x1280xf16>, tensor<1280xf16>) -> tensor<1280x1280xf16> loc("bias")
    %2 = graph.elementwise multiply(%1, %root) : (tensor<1280x1280xf16>, tensor<f16>) -> tensor<1280x1280xf16> loc("gelu")
    %3 = graph.elementwise erf(%2) : (tensor<1280x1280xf16>) -> tensor<1280x1280xf16> loc("gelu")
    %4 = graph.elementwise add(%3, %one) : (tensor<1280x1280xf16>, tensor<f16>) -> tensor<1280x1280xf16> loc("gelu")
    %5 = graph.elementwise multiply(%1, %4) : (tensor<1280x1280xf16>, tensor<1280x1280xf16>) -> tensor<1280x1280xf16> loc("gelu")
    %6 = graph.elementwise multiply(%5, %half) : (tensor<1280x1280xf16>, tensor<f16>) -> tensor<1280x1280xf16> loc("gelu")
    return %6 : tensor<1280x1280xf16>
  }
}
