// A product writes the parts and orders that are wanted of its result. A reduction begins with what only it needs. Depthwise convolution goes on with
// what follows. What is broadcast is computed inside a small kernel, and outside a large one.
module {
  func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x24xf32>, %b: tensor<24xf32>, %image: tensor<1x4x8x8xf32>, %dw: tensor<4x1x3x3xf32>, %mask: tensor<8xi64>, %large: tensor<512x8x64xf32>) -> (tensor<12x8xf32>, tensor<2x6x8xf32>, tensor<8xf32>, tensor<1x4x6x6xf32>, tensor<8x8xf32>, tensor<512x8x64xf32>) {
    %0 = graph.contract "mk,kn->mn"(%x, %w) accumulate f32 : (tensor<8x16xf32>, tensor<16x24xf32>) -> tensor<8x24xf32> loc("MatMul")
    %1 = graph.elementwise add(%0, %b) : (tensor<8x24xf32>, tensor<24xf32>) -> tensor<8x24xf32> loc("Add")
    %2 = graph.slice %1 {starts = [0, 0], sizes = [8, 12], steps = array<i64: 1, 1>} : tensor<8x24xf32> -> tensor<8x12xf32> loc("First")
    %3 = graph.slice %1 {starts = [0, 12], sizes = [8, 12], steps = array<i64: 1, 1>} : tensor<8x24xf32> -> tensor<8x12xf32> loc("Second")
    %4 = graph.transpose %2 {permutation = array<i64: 1, 0>} : tensor<8x12xf32> -> tensor<12x8xf32> loc("TransposeFirst")
    %5 = graph.reshape %3 {shape = [8, 2, 6]} : tensor<8x12xf32> -> tensor<8x2x6xf32> loc("Heads")
    %6 = graph.transpose %5 {permutation = array<i64: 1, 2, 0>} : tensor<8x2x6xf32> -> tensor<2x6x8xf32> loc("TransposeSecond")
    %7 = graph.elementwise exp(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32> loc("Exp")
    %8 = graph.elementwise multiply(%7, %x) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc("Mul")
    %9 = graph.reduce sum(%8) {axes = array<i64: 1>} : (tensor<8x16xf32>) -> tensor<8xf32> loc("ReduceSum")
    %10 = graph.convolution(%image, %dw) accumulate f32 {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pad_begin = array<i64: 0, 0>, pad_end = array<i64: 0, 0>, groups = 4} : (tensor<1x4x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32> loc("Depthwise")
    %zero = graph.constant dense<0.0> : tensor<f32> -> tensor<f32>
    %11 = graph.elementwise max(%10, %zero) : (tensor<1x4x6x6xf32>, tensor<f32>) -> tensor<1x4x6x6xf32> loc("Relu")
    %12 = graph.cast %mask : tensor<8xi64> -> tensor<8xf32> loc("Cast")
    %13 = graph.reshape %9 {shape = [8, 1]} : tensor<8xf32> -> tensor<8x1xf32> loc("Column")
    %14 = graph.elementwise add(%13, %12) : (tensor<8x1xf32>, tensor<8xf32>) -> tensor<8x8xf32> loc("AddMask")
    %15 = graph.reshape %12 {shape = [8, 1]} : tensor<8xf32> -> tensor<8x1xf32> loc("Rows")
    %16 = graph.elementwise sqrt(%15) : (tensor<8x1xf32>) -> tensor<8x1xf32> loc("Sqrt")
    %17 = graph.elementwise multiply(%large, %16) : (tensor<512x8x64xf32>, tensor<8x1xf32>) -> tensor<512x8x64xf32> loc("Scale")
    return %4, %6, %9, %11, %14, %17 : tensor<12x8xf32>, tensor<2x6x8xf32>, tensor<8xf32>, tensor<1x4x6x6xf32>, tensor<8x8xf32>, tensor<512x8x64xf32>
  }
}
