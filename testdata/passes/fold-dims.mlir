// The extent of a fixed dimension is a constant; that of a symbolic one stays.
module {
  func.func @main(%a: tensor<?x7xf32, {dims = ["batch", 7]}>) -> (tensor<i64>, tensor<i64>) {
    %0 = graph.dim %a {axis = 0} : tensor<?x7xf32, {dims = ["batch", 7]}> -> tensor<i64> loc("symbolic")
    %1 = graph.dim %a {axis = -1} : tensor<?x7xf32, {dims = ["batch", 7]}> -> tensor<i64> loc("fixed")
    return %0, %1 : tensor<i64>, tensor<i64>
  }
}
