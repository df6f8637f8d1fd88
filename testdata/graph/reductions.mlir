// Windows, reductions, cumulative reductions, normalisation, selection.
module {
  func.func @main(%arg0: tensor<1x4x8x8xf32>, %arg1: tensor<8xf32>) -> tensor<1x4xf32> {
    %0 = graph.window max(%arg0) {dilations = array<i64: 1, 1>, kernel = array<i64: 2, 2>, pad_begin = array<i64: 0, 0>, pad_end = array<i64: 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
    %1 = graph.window average(%0) {ceil, count_include_pad, dilations = array<i64: 1, 1>, kernel = array<i64: 3, 3>, pad_begin = array<i64: 0, 0>, pad_end = array<i64: 0, 0>, strides = array<i64: 2, 2>} : (tensor<1x4x4x4xf32>) -> tensor<1x4x2x2xf32>
    %2 = graph.normalize layer(%arg0, %arg1) {axes = array<i64: 3>, epsilon = 1.000000e-05 : f64} : (tensor<1x4x8x8xf32>, tensor<8xf32>) -> tensor<1x4x8x8xf32>
    %3 = graph.softmax %2 {axis = -1 : i64} : tensor<1x4x8x8xf32> -> tensor<1x4x8x8xf32>
    %4 = graph.softmax %3 {axis = 1 : i64, log} : tensor<1x4x8x8xf32> -> tensor<1x4x8x8xf32>
    %5 = graph.scan sum(%4) {axis = 2 : i64, exclusive, reverse} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
    %6 = graph.arg_reduce max(%5) {axis = 1 : i64, keep_dims, last} : (tensor<1x4x8x8xf32>) -> tensor<1x1x8x8xi64>
    %values, %indices = graph.top_k %5 {axis = 3 : i64, k = 3 : i64, smallest} : (tensor<1x4x8x8xf32>) -> (tensor<1x4x8x3xf32>, tensor<1x4x8x3xi64>)
    %7 = graph.reduce mean(%values) {axes = array<i64: 2, 3>} : (tensor<1x4x8x3xf32>) -> tensor<1x4xf32>
    return %7 : tensor<1x4xf32>
  }
}
