// (conv - mean) / sqrt(variance + epsilon) * scale + bias: the factors become those of the weights, the rest one bias.
module {
  graph.parameter @w : tensor<4x3x3x3xf32>
  graph.parameter @mean : tensor<4xf32>
  graph.parameter @variance : tensor<4xf32>
  graph.parameter @scale : tensor<4xf32>
  graph.parameter @bias : tensor<4xf32>
  func.func @main(%x: tensor<1x3x6x6xf32>) -> tensor<1x4x6x6xf32> {
    %w = graph.get_parameter @w : tensor<4x3x3x3xf32>
    %m = graph.get_parameter @mean : tensor<4xf32>
    %v = graph.get_parameter @variance : tensor<4xf32>
    %s = graph.get_parameter @scale : tensor<4xf32>
    %b = graph.get_parameter @bias : tensor<4xf32>
    %epsilon = graph.constant dense<1.0e-05> : tensor<f32> -> tensor<f32>
    %zero = graph.constant dense<0.0> : tensor<f32> -> tensor<f32>
    %mean = graph.reshape %m {shape = [1, 4, 1, 1]} : tensor<4xf32> -> tensor<1x4x1x1xf32> loc("BatchNorm")
    %variance = graph.reshape %v {shape = [1, 4, 1, 1]} : tensor<4xf32> -> tensor<1x4x1x1xf32> loc("BatchNorm")
    %scale = graph.reshape %s {shape = [1, 4, 1, 1]} : tensor<4xf32> -> tensor<1x4x1x1xf32> loc("BatchNorm")
    %bias = graph.reshape %b {shape = [1, 4, 1, 1]} : tensor<4xf32> -> tensor<1x4x1x1xf32> loc("BatchNorm")
    %0 = graph.convolution(%x, %w) accumulate f32 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pad_begin = array<i64: 1, 1>, pad_end = array<i64: 1, 1>, groups = 1} : (tensor<1x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32> loc("Conv")
    %1 = graph.elementwise add(%variance, %epsilon) : (tensor<1x4x1x1xf32>, tensor<f32>) -> tensor<1x4x1x1xf32> loc("BatchNorm")
    %2 = graph.elementwise sqrt(%1) : (tensor<1x4x1x1xf32>) -> tensor<1x4x1x1xf32> loc("BatchNorm")
    %3 = graph.elementwise subtract(%0, %mean) : (tensor<1x4x6x6xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x6x6xf32> loc("BatchNorm")
    %4 = graph.elementwise divide(%3, %2) : (tensor<1x4x6x6xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x6x6xf32> loc("BatchNorm")
    %5 = graph.elementwise multiply(%4, %scale) : (tensor<1x4x6x6xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x6x6xf32> loc("BatchNorm")
    %6 = graph.elementwise add(%5, %bias) : (tensor<1x4x6x6xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x6x6xf32> loc("BatchNorm")
    %7 = graph.elementwise max(%6, %zero) : (tensor<1x4x6x6xf32>, tensor<f32>) -> tensor<1x4x6x6xf32> loc("Relu")
    return %7 : tensor<1x4x6x6xf32>
  }
}
