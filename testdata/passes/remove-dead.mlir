// A chain that nothing uses goes as a whole, with the parameter that only it read; what is returned stays.
module {
  graph.parameter @kept : tensor<4xf32>
  graph.parameter @unused : tensor<4xf32>
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %k = graph.get_parameter @kept : tensor<4xf32>
    %u = graph.get_parameter @unused : tensor<4xf32>
    %0 = graph.elementwise add(%a, %u) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("dead add")
    %1 = graph.elementwise exp(%0) : (tensor<4xf32>) -> tensor<4xf32> loc("dead exp")
    %2 = graph.elementwise multiply(%a, %k) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("live")
    return %2 : tensor<4xf32>
  }
}
