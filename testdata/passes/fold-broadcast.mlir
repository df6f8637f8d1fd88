// The first broadcast is one that `add` does by itself; without the second, `exp` would give a smaller result.
module {
  func.func @main(%a: tensor<4x3xf32>, %b: tensor<3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
    %0 = graph.broadcast %b {shape = [4, 3]} : tensor<3xf32> -> tensor<4x3xf32> loc("expand")
    %1 = graph.elementwise add(%a, %0) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32> loc("add")
    %2 = graph.elementwise exp(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32> loc("exp")
    return %1, %2 : tensor<4x3xf32>, tensor<4x3xf32>
  }
}
