// Attention of 16 heads of 64, 2048 queries and keys, without a mask.
module {
  func.func @main(%q: tensor<4x16x2048x64xf16> {graph.name = "q"}, %k: tensor<4x16x2048x64xf16> {graph.name = "k"}, %v: tensor<4x16x2048x64xf16> {graph.name = "v"}) -> (tensor<4x16x2048x64xf16> {graph.name = "o"}) {
    %0 = graph.attention(%q, %k, %v) {scale = 1.250000e-01 : f64} : (tensor<4x16x2048x64xf16>, tensor<4x16x2048x64xf16>, tensor<4x16x2048x64xf16>) -> tensor<4x16x2048x64xf16> loc("attention")
    return %0 : tensor<4x16x2048x64xf16>
  }
}
