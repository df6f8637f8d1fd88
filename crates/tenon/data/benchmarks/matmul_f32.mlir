// A product of f32; the class of the list's kernel says whether its terms are rounded.
module {
  func.func @main(%a: tensor<1280x1280xf32> {graph.name = "a"}, %b: tensor<1280x1280xf32> {graph.name = "b"}) -> (tensor<1280x1280xf32> {graph.name = "c"}) {
    %0 = graph.contract "mk,kn->mn"(%a, %b) accumulate f32 : (tensor<1280x1280xf32>, tensor<1280x1280xf32>) -> tensor<1280x1280xf32> loc("matmul")
    return %0 : tensor<1280x1280xf32>
  }
}
