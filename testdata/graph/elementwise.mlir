// Scalar functions with broadcasting, and conversions.
module {
  func.func @main(%arg0: tensor<4x1xf32>, %arg1: tensor<3xf32>, %arg2: tensor<i1>) -> (tensor<4x3xf32>, tensor<4x3xi1>, tensor<4x1xf8E4M3FN>, tensor<4x1xui8>) {
    %0 = graph.elementwise add(%arg0, %arg1) : (tensor<4x1xf32>, tensor<3xf32>) -> tensor<4x3xf32>
    %1 = graph.elementwise erf(%0) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    %2 = graph.elementwise select(%arg2, %1, %0) : (tensor<i1>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %3 = graph.elementwise less_equal(%2, %arg1) : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xi1>
    %4 = graph.cast %arg0 {saturate} : tensor<4x1xf32> -> tensor<4x1xf8E4M3FN>
    %5 = graph.cast %arg0 : tensor<4x1xf32> -> tensor<4x1xui8>
    return %2, %3, %4, %5 : tensor<4x3xf32>, tensor<4x3xi1>, tensor<4x1xf8E4M3FN>, tensor<4x1xui8>
  }
}
