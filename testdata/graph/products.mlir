// Contraction, convolution and its transpose, attention.
module {
  func.func @main(%arg0: tensor<?x64x32xf16, {dims = ["batch", 64, 32]}>, %arg1: tensor<32x48xf16>, %arg2: tensor<1x4x9x9xf32>, %arg3: tensor<8x2x3x3xf32>, %arg4: tensor<8x3x2x2xf32>) -> (tensor<?x64x48xf16, {dims = ["batch", 64, 48]}>, tensor<1x8x5x5xf32>, tensor<1x3x11x11xf32>) {
    %0 = graph.contract "bmk,kn->bmn"(%arg0, %arg1) accumulate f32 : (tensor<?x64x32xf16, {dims = ["batch", 64, 32]}>, tensor<32x48xf16>) -> tensor<?x64x48xf16, {dims = ["batch", 64, 48]}>
    %1 = graph.convolution(%arg2, %arg3) accumulate f32 {dilations = array<i64: 1, 1>, groups = 2 : i64, pad_begin = array<i64: 1, 1>, pad_end = array<i64: 1, 1>, strides = array<i64: 2, 2>} : (tensor<1x4x9x9xf32>, tensor<8x2x3x3xf32>) -> tensor<1x8x5x5xf32>
    %2 = graph.convolution(%1, %arg4) accumulate f64 {dilations = array<i64: 1, 1>, groups = 1 : i64, output_padding = array<i64: 1, 1>, pad_begin = array<i64: 0, 0>, pad_end = array<i64: 0, 0>, strides = array<i64: 2, 2>, transposed} : (tensor<1x8x5x5xf32>, tensor<8x3x2x2xf32>) -> tensor<1x3x11x11xf32>
    return %0, %1, %2 : tensor<?x64x48xf16, {dims = ["batch", 64, 48]}>, tensor<1x8x5x5xf32>, tensor<1x3x11x11xf32>
  }
  func.func @attention(%arg0: tensor<2x8x16x64xbf16>, %arg1: tensor<2x2x24x64xbf16>, %arg2: tensor<2x2x24x32xbf16>, %arg3: tensor<16x24xbf16>) -> tensor<2x8x16x32xbf16> {
    %0 = graph.attention(%arg0, %arg1, %arg2, %arg3) {causal = "end", scale = 1.250000e-01 : f64, softcap = 5.000000e+01 : f64} : (tensor<2x8x16x64xbf16>, tensor<2x2x24x64xbf16>, tensor<2x2x24x32xbf16>, tensor<16x24xbf16>) -> tensor<2x8x16x32xbf16>
    return %0 : tensor<2x8x16x32xbf16>
  }
}
