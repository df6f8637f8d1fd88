// A small classifier: softmax(relu(x·w + b)), with a free batch.
module attributes {graph.model = "mlp"} {
  graph.parameter @w : tensor<3x4xf32>
  graph.parameter @b : tensor<4xf32>
  func.func @main(%x: tensor<?x3xf32, {dims = ["batch", 3]}> {graph.name = "x"}) -> (tensor<?x4xf32, {dims = ["batch", 4]}> {graph.name = "probabilities"}) {
    %w = graph.get_parameter @w : tensor<3x4xf32>
    %b = graph.get_parameter @b : tensor<4xf32>
    %zero = graph.constant dense<0.0> : tensor<f32> -> tensor<f32>
    %0 = graph.contract "mk,kn->mn"(%x, %w) accumulate f32 : (tensor<?x3xf32, {dims = ["batch", 3]}>, tensor<3x4xf32>) -> tensor<?x4xf32, {dims = ["batch", 4]}> loc("MatMul_0")
    %1 = graph.elementwise add(%0, %b) : (tensor<?x4xf32, {dims = ["batch", 4]}>, tensor<4xf32>) -> tensor<?x4xf32, {dims = ["batch", 4]}> loc("Add_1")
    %2 = graph.elementwise max(%1, %zero) : (tensor<?x4xf32, {dims = ["batch", 4]}>, tensor<f32>) -> tensor<?x4xf32, {dims = ["batch", 4]}> loc("Relu_2")
    %3 = graph.softmax %2 {axis = 1} : tensor<?x4xf32, {dims = ["batch", 4]}> -> tensor<?x4xf32, {dims = ["batch", 4]}> loc("Softmax_3")
    return %3 : tensor<?x4xf32, {dims = ["batch", 4]}>
  }
}
