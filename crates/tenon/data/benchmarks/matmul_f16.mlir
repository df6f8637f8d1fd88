// A product of f16, summed in f32: one wave of 128 x 128 tiles on an A100.
module {
  func.func @main(%a: tensor<1280x1280xf16> {graph.name = "a"}, %b: tensor<1280x1280xf16> {graph.name = "b"}) -> (tensor<1280x1280xf16> {graph.name = "c"}) {
    %0 = graph.contract "mk,kn->mn"(%a, %b) accumulate f32 : (tensor<1280x1280xf16>, tensor<1280x1280xf16>) -> tensor<1280x1280xf16> loc("matmul")
    return %0 : tensor<1280x1280xf16>
  }
}
