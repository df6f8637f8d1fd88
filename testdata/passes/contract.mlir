// Ids of a free batch and length; the positions, the slice and the reshape hold expressions over both.
module {
  graph.parameter @table : tensor<100x6xf32>
  func.func @main(%ids: tensor<?x?xi64, {dims = ["N", "S"]}> {graph.name = "ids"})
      -> (tensor<?x?x6xf32, {dims = ["N", "S-1", 6]}> {graph.name = "hidden"}, tensor<?x6xf32, {dims = ["N*S", 6]}> {graph.name = "flat"}) {
    %table = graph.get_parameter @table : tensor<100x6xf32>
    %0 = graph.gather take(%table, %ids) {axis = 0, batch_dims = 0} : (tensor<100x6xf32>, tensor<?x?xi64, {dims = ["N", "S"]}>) -> tensor<?x?x6xf32, {dims = ["N", "S", 6]}> loc("Gather")
    %1 = graph.iota {shape = ["S", 1], axis = 0} : tensor<?x1xf32, {dims = ["S", 1]}> loc("Positions")
    %2 = graph.elementwise add(%0, %1) : (tensor<?x?x6xf32, {dims = ["N", "S", 6]}>, tensor<?x1xf32, {dims = ["S", 1]}>) -> tensor<?x?x6xf32, {dims = ["N", "S", 6]}> loc("Add")
    %3 = graph.slice %2 {starts = [0, 1, 0], sizes = ["N", "S-1", 6], steps = array<i64: 1, 1, 1>} : tensor<?x?x6xf32, {dims = ["N", "S", 6]}> -> tensor<?x?x6xf32, {dims = ["N", "S-1", 6]}> loc("Slice")
    %4 = graph.reshape %2 {shape = ["N*S", 6]} : tensor<?x?x6xf32, {dims = ["N", "S", 6]}> -> tensor<?x6xf32, {dims = ["N*S", 6]}> loc("Reshape")
    return %3, %4 : tensor<?x?x6xf32, {dims = ["N", "S-1", 6]}>, tensor<?x6xf32, {dims = ["N*S", 6]}>
  }
}
