// A product of f16, summed in f32, whose tiles of 128 by 128 fill an H100 once.
module {
  func.func @main(%a: tensor<1536x4096xf16> {graph.name = "a"}, %b: tensor<4096x1408xf16> {graph.name = "b"}) -> (tensor<1536x1408xf16> {graph.name = "c"}) {
    %0 = graph.contract "mk,kn->mn"(%a, %b) accumulate f32 : (tensor<1536x4096xf16>, tensor<4096x1408xf16>) -> tensor<1536x1408xf16> loc("matmul")
    return %0 : tensor<1536x1408xf16>
  }
}
