// Values that are not computed: parameters, literals, counting, extents.
module {
  graph.parameter @weight : tensor<2x3xf16> {source = "model.onnx:weight"}
  graph.derived_parameter @transposed : tensor<3x2xf16> {
    %0 = graph.get_parameter @weight : tensor<2x3xf16>
    %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : tensor<2x3xf16> -> tensor<3x2xf16>
    graph.yield %1 : tensor<3x2xf16>
  }
  func.func @main(%arg0: tensor<?x8xf32, {dims = ["batch", 8]}>) -> (tensor<3x2xf16>, tensor<2xi32>, tensor<2x4xi64>, tensor<i64>) {
    %0 = graph.get_parameter @transposed : tensor<3x2xf16>
    %1 = graph.constant dense<[1, -2]> : tensor<2xi32> -> tensor<2xi32>
    %2 = graph.iota {axis = 1 : i64, shape = [2, 4]} : tensor<2x4xi64>
    %3 = graph.dim %arg0 {axis = 0 : i64} : tensor<?x8xf32, {dims = ["batch", 8]}> -> tensor<i64>
    return %0, %1, %2, %3 : tensor<3x2xf16>, tensor<2xi32>, tensor<2x4xi64>, tensor<i64>
  }
}
