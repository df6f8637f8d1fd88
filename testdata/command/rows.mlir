// A pointwise kernel and a reduction, small enough to read at every stage.
module attributes {graph.model = "rows"} {
  func.func @main(%x: tensor<2x32xf32> {graph.name = "x"}, %s: tensor<32xf32> {graph.name = "s"}) -> (tensor<2xf32> {graph.name = "total"}, tensor<2x32xf32> {graph.name = "scaled"}) {
    %0 = graph.elementwise multiply(%x, %s) : (tensor<2x32xf32>, tensor<32xf32>) -> tensor<2x32xf32> loc("Mul_0")
    %1 = graph.reduce sum(%0) {axes = array<i64: 1>} : (tensor<2x32xf32>) -> tensor<2xf32> loc("ReduceSum_1")
    return %1, %0 : tensor<2xf32>, tensor<2x32xf32>
  }
}
