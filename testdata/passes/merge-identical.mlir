// The two additions and the two ones are the same; the subtraction and the i64 one are not.
module {
  graph.parameter @w : tensor<4xf32>
  func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>) {
    %one = graph.constant dense<1.0> : tensor<f32> -> tensor<f32>
    %w0 = graph.get_parameter @w : tensor<4xf32>
    %w1 = graph.get_parameter @w : tensor<4xf32>
    %again = graph.constant dense<1.0> : tensor<f32> -> tensor<f32>
    %other = graph.constant dense<1> : tensor<i64> -> tensor<i64>
    %0 = graph.elementwise add(%w0, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("first")
    %1 = graph.elementwise add(%w1, %again) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("second")
    %2 = graph.elementwise subtract(%w1, %one) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32> loc("third")
    return %0, %1, %2, %other : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i64>
  }
}
