// A product of f32 whose terms are not rounded.
module {
  func.func @main(%a: tensor<2048x2048xf32> {graph.name = "a"}, %b: tensor<2048x2048xf32> {graph.name = "b"}) -> (tensor<2048x2048xf32> {graph.name = "c"}) {
    %0 = graph.contract "mk,kn->mn"(%a, %b) accumulate f32 : (tensor<2048x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32> loc("matmul")
    return %0 : tensor<2048x2048xf32>
  }
}
