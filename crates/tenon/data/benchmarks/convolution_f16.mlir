// A 3 x 3 convolution of 256 channels, positions together in memory.
module {
  func.func @main(%x: tensor<16x256x28x28xf16> {graph.name = "x"}, %w: tensor<256x256x3x3xf16> {graph.name = "w"}) -> (tensor<16x256x28x28xf16> {graph.name = "y"}) {
    %0 = graph.convolution(%x, %w) accumulate f32 {dilations = array<i64: 1, 1>, groups = 1 : i64, pad_begin = array<i64: 1, 1>, pad_end = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<16x256x28x28xf16>, tensor<256x256x3x3xf16>) -> tensor<16x256x28x28xf16> loc("convolution")
    return %0 : tensor<16x256x28x28xf16>
  }
}
