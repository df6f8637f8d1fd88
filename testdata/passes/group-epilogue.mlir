// The matmul goes on with bias, erf-GELU and residual, and ends where a value is needed twice; the reshape is a view between kernels.
module {
  graph.parameter @w : tensor<16x32xf32>
  graph.parameter @b : tensor<32xf32>
  func.func @main(%x: tensor<8x16xf32>, %residual: tensor<8x32xf32>) -> (tensor<8x32xf32>, tensor<8xf32>, tensor<4x64xf32>) {
    %w = graph.get_parameter @w : tensor<16x32xf32>
    %b = graph.get_parameter @b : tensor<32xf32>
    %half = graph.constant dense<0.5> : tensor<f32> -> tensor<f32>
    %one = graph.constant dense<1.0> : tensor<f32> -> tensor<f32>
    %root = graph.constant dense<0.70710678> : tensor<f32> -> tensor<f32>
    %0 = graph.contract "mk,kn->mn"(%x, %w) accumulate f32 : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc("MatMul")
    %1 = graph.elementwise add(%0, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32> loc("Add")
    %2 = graph.elementwise multiply(%1, %root) : (tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32> loc("Div")
    %3 = graph.elementwise erf(%2) : (tensor<8x32xf32>) -> tensor<8x32xf32> loc("Erf")
    %4 = graph.elementwise add(%3, %one) : (tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32> loc("AddOne")
    %5 = graph.elementwise multiply(%1, %4) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32> loc("Mul")
    %6 = graph.elementwise multiply(%5, %half) : (tensor<8x32xf32>, tensor<f32>) -> tensor<8x32xf32> loc("Half")
    %7 = graph.elementwise add(%6, %residual) : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32> loc("Residual")
    // %7 is used twice, and the two uses come together in %10: the value %8 in between is a reduction's, so %7 must be stored.
    %8 = graph.reduce sum(%7) {axes = array<i64: 1>} : (tensor<8x32xf32>) -> tensor<8xf32> loc("ReduceSum")
    %9 = graph.reshape %8 {shape = [8, 1]} : tensor<8xf32> -> tensor<8x1xf32> loc("Unsqueeze")
    %10 = graph.elementwise divide(%7, %9) : (tensor<8x32xf32>, tensor<8x1xf32>) -> tensor<8x32xf32> loc("Normalise")
    %11 = graph.reshape %10 {shape = [4, 64]} : tensor<8x32xf32> -> tensor<4x64xf32> loc("Reshape")
    %12 = graph.elementwise sqrt(%8) : (tensor<8xf32>) -> tensor<8xf32> loc("Sqrt")
    return %10, %12, %11 : tensor<8x32xf32>, tensor<8xf32>, tensor<4x64xf32>
  }
}
