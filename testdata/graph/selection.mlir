// Sizes that depend on values: the places where an element is not 0, and a choice of boxes; and the bits of elements as another type.
module {
  func.func @main(%arg0: tensor<24xf32>, %arg1: tensor<2x9x4xf32>, %arg2: tensor<2x9xi1>, %arg3: tensor<1xf32>) -> (tensor<24xi64, {dims = ["nonzero_0"]}>, tensor<2x9xi1>, tensor<24xi32>) {
    %0 = graph.cast %arg0 : tensor<24xf32> -> tensor<24xi1>
    %1 = graph.cast %0 : tensor<24xi1> -> tensor<24xi64>
    %2 = graph.scan sum(%1) {axis = 0 : i64} : (tensor<24xi64>) -> tensor<24xi64>
    %3 = graph.reduce sum(%1) {axes = array<i64: 0>} : (tensor<24xi64>) -> tensor<i64>
    %4 = graph.iota {axis = 0 : i64, shape = [24]} : tensor<24xi64>
    %5 = graph.set_dimension_size "nonzero_0" = %3 of %4 : (tensor<24xi64>, tensor<i64>) -> tensor<24xi64, {dims = ["nonzero_0"]}>
    %6 = graph.search_sorted(%2, %5) : (tensor<24xi64>, tensor<24xi64, {dims = ["nonzero_0"]}>) -> tensor<24xi64, {dims = ["nonzero_0"]}>
    %7 = graph.non_max_suppression(%arg1, %arg2, %arg3) : (tensor<2x9x4xf32>, tensor<2x9xi1>, tensor<1xf32>) -> tensor<2x9xi1>
    %8 = graph.bitcast %arg0 : tensor<24xf32> -> tensor<24xi32>
    return %6, %7, %8 : tensor<24xi64, {dims = ["nonzero_0"]}>, tensor<2x9xi1>, tensor<24xi32>
  }
}
