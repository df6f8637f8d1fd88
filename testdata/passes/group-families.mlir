// One operator of each family; a depthwise convolution is a map, one with groups is not.
module {
  func.func @main(%x: tensor<1x4x8x8xf32>, %dw: tensor<4x1x3x3xf32>, %gw: tensor<8x2x3x3xf32>, %bias: tensor<8x1x1xf32>, %i: tensor<3x1xi64>, %u: tensor<3x8xf32>)
      -> (tensor<1x4x6x6xf32>, tensor<1x8x6x6xf32>, tensor<1x4x4x4xf32>, tensor<8x2xf32>, tensor<8x2xi64>, tensor<8x8xf32>, tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
    %zero = graph.constant dense<0.0> : tensor<f32> -> tensor<f32>
    %0 = graph.convolution(%x, %dw) accumulate f32 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pad_begin = array<i64: 0, 0>, pad_end = array<i64: 0, 0>, groups = 4}
      : (tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32> loc("Depthwise")
    %1 = graph.convolution(%x, %gw) accumulate f32 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pad_begin = array<i64: 0, 0>, pad_end = array<i64: 0, 0>, groups = 2}
      : (tensor<1x4x8x8xf32>, tensor<8x2x3x3xf32>) -> tensor<1x8x6x6xf32> loc("Grouped")
    %2 = graph.elementwise add(%1, %bias) : (tensor<1x8x6x6xf32>, tensor<8x1x1xf32>) -> tensor<1x8x6x6xf32> loc("Bias")
    %3 = graph.elementwise max(%2, %zero) : (tensor<1x8x6x6xf32>, tensor<f32>) -> tensor<1x8x6x6xf32> loc("Relu")
    %4 = graph.window max(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pad_begin = array<i64: 0, 0>, pad_end = array<i64: 0, 0>}
      : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32> loc("Pool")
    %5 = graph.slice %x {starts = [0, 0, 0, 0], sizes = [1, 1, 8, 8], steps = array<i64: 1, 1, 1, 1>} : tensor<1x4x8x8xf32> -> tensor<1x1x8x8xf32> loc("Slice")
    %6 = graph.reshape %5 {shape = [8, 8]} : tensor<1x1x8x8xf32> -> tensor<8x8xf32> loc("Squeeze")
    %7, %8 = graph.top_k %6 {k = 2, axis = 1} : (tensor<8x8xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>) loc("TopK")
    %9 = graph.scatter nd(%6, %i, %u) {combine = "set", axis = 0} : (tensor<8x8xf32>, tensor<3x1xi64>, tensor<3x8xf32>) -> tensor<8x8xf32> loc("Scatter")
    %10 = graph.scan sum(%x) {axis = 3} : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> loc("CumSum")
    %11 = graph.softmax %x {axis = 3} : tensor<1x4x8x8xf32> -> tensor<1x4x8x8xf32> loc("Softmax")
    %12 = graph.attention(%x, %11, %x) {scale = 0.5} : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32> loc("Attention")
    return %0, %3, %4, %7, %8, %9, %10, %12 : tensor<1x4x6x6xf32>, tensor<1x8x6x6xf32>, tensor<1x4x4x4xf32>, tensor<8x2xf32>, tensor<8x2xi64>, tensor<8x8xf32>, tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
  }
}
