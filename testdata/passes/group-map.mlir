// One map takes in the chain with its diamond and its broadcast; the exponential is needed by two kernels and stands alone; the transpose
// has another shape; the large constant stays outside and becomes an operand, the small one is written into each kernel that uses it.
module {
  func.func @main(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> (tensor<2x3xf16>, tensor<3x2xf32>, tensor<2x3xf32>) {
    %two = graph.constant dense<2.0> : tensor<1xf32> -> tensor<1xf32>
    %table = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32> -> tensor<2x3xf32>
    %0 = graph.elementwise exp(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("Exp")
    %1 = graph.broadcast %b {shape = [2, 3]} : tensor<3xf32> -> tensor<2x3xf32> loc("Expand")
    %2 = graph.elementwise add(%0, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("Add")
    %3 = graph.elementwise sigmoid(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("Sigmoid")
    %4 = graph.elementwise multiply(%2, %3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("Mul")
    %5 = graph.elementwise power(%4, %two) : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32> loc("Pow")
    %6 = graph.cast %5 : tensor<2x3xf32> -> tensor<2x3xf16> loc("Cast")
    %7 = graph.transpose %0 {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<3x2xf32> loc("Transpose")
    %8 = graph.elementwise multiply(%table, %two) : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x3xf32> loc("Scale")
    return %6, %7, %8 : tensor<2x3xf16>, tensor<3x2xf32>, tensor<2x3xf32>
  }
}
