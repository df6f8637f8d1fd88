// Reading and writing by index.
module {
  func.func @main(%arg0: tensor<100x16xf16>, %arg1: tensor<?x?xi64, {dims = ["batch", "seq"]}>, %arg2: tensor<5x1xi32>, %arg3: tensor<5x16xf16>) -> (tensor<?x?x16xf16, {dims = ["batch", "seq", 16]}>, tensor<5x16xf16>, tensor<100x16xf16>) {
    %0 = graph.gather take(%arg0, %arg1) {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<100x16xf16>, tensor<?x?xi64, {dims = ["batch", "seq"]}>) -> tensor<?x?x16xf16, {dims = ["batch", "seq", 16]}>
    %1 = graph.gather nd(%arg0, %arg2) {axis = 0 : i64, batch_dims = 0 : i64} : (tensor<100x16xf16>, tensor<5x1xi32>) -> tensor<5x16xf16>
    %2 = graph.gather elements(%1, %arg2) {axis = 1 : i64, batch_dims = 0 : i64} : (tensor<5x16xf16>, tensor<5x1xi32>) -> tensor<5x1xf16>
    %3 = graph.scatter nd(%arg0, %arg2, %arg3) {axis = 0 : i64, combine = "add"} : (tensor<100x16xf16>, tensor<5x1xi32>, tensor<5x16xf16>) -> tensor<100x16xf16>
    %4 = graph.scatter elements(%3, %arg2, %2) {axis = 0 : i64, combine = "set"} : (tensor<100x16xf16>, tensor<5x1xi32>, tensor<5x1xf16>) -> tensor<100x16xf16>
    return %0, %1, %4 : tensor<?x?x16xf16, {dims = ["batch", "seq", 16]}>, tensor<5x16xf16>, tensor<100x16xf16>
  }
}
