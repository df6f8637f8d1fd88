// Quantised integers and narrow floats.
module {
  func.func @main(%arg0: tensor<8x64xf32>, %arg1: tensor<f32>, %arg2: tensor<8x2xf16>) -> (tensor<8x64xf32>, tensor<8x64xf16>) {
    %0 = graph.constant dense<128> : tensor<ui8> -> tensor<ui8>
    %1 = graph.quantize(%arg0, %arg1, %0) {axis = 1 : i64, block_size = 0 : i64} : (tensor<8x64xf32>, tensor<f32>, tensor<ui8>) -> tensor<8x64xui8>
    %2 = graph.dequantize(%1, %arg1, %0) {axis = 1 : i64, block_size = 0 : i64} : (tensor<8x64xui8>, tensor<f32>, tensor<ui8>) -> tensor<8x64xf32>
    %3 = graph.constant dense<0> : tensor<8x2xi4> -> tensor<8x2xi4>
    %4 = graph.quantize(%arg0, %arg2, %3) {axis = 1 : i64, block_size = 32 : i64} : (tensor<8x64xf32>, tensor<8x2xf16>, tensor<8x2xi4>) -> tensor<8x64xi4>
    %5 = graph.dequantize(%4, %arg2, %3) {axis = 1 : i64, block_size = 32 : i64} : (tensor<8x64xi4>, tensor<8x2xf16>, tensor<8x2xi4>) -> tensor<8x64xf16>
    return %2, %5 : tensor<8x64xf32>, tensor<8x64xf16>
  }
}
