// A product of f16, summed in f32, whose grid of large tiles takes several waves.
module {
  func.func @main(%a: tensor<4096x4096xf16> {graph.name = "a"}, %b: tensor<4096x4096xf16> {graph.name = "b"}) -> (tensor<4096x4096xf16> {graph.name = "c"}) {
    %0 = graph.contract "mk,kn->mn"(%a, %b) accumulate f32 : (tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<4096x4096xf16> loc("matmul")
    return %0 : tensor<4096x4096xf16>
  }
}
