// Dimension i of the composition is dimension p[q[i]] of the input: p = [1, 2, 0], q = [2, 0, 1] gives [0, 1, 2].
module {
  func.func @main(%a: tensor<2x3x5xf32>, %b: tensor<1x6x1x5xf32>) -> (tensor<2x3x5xf32>, tensor<3x2x5xf32>, tensor<5x6xf32>, tensor<6x1x1x5xf32>) {
    %0 = graph.transpose %a {permutation = array<i64: 1, 2, 0>} : tensor<2x3x5xf32> -> tensor<3x5x2xf32> loc("p")
    %1 = graph.transpose %0 {permutation = array<i64: 2, 0, 1>} : tensor<3x5x2xf32> -> tensor<2x3x5xf32> loc("q")
    %2 = graph.transpose %0 {permutation = array<i64: 0, 2, 1>} : tensor<3x5x2xf32> -> tensor<3x2x5xf32> loc("r")
    %3 = graph.reshape %a {shape = [30]} : tensor<2x3x5xf32> -> tensor<30xf32> loc("flat")
    %4 = graph.reshape %3 {shape = [6, 5]} : tensor<30xf32> -> tensor<6x5xf32> loc("wide")
    %5 = graph.reshape %4 {shape = [5, 6]} : tensor<6x5xf32> -> tensor<5x6xf32> loc("high")
    %6 = graph.transpose %b {permutation = array<i64: 1, 2, 0, 3>} : tensor<1x6x1x5xf32> -> tensor<6x1x1x5xf32> loc("moves nothing")
    return %1, %2, %5, %6 : tensor<2x3x5xf32>, tensor<3x2x5xf32>, tensor<5x6xf32>, tensor<6x1x1x5xf32>
  }
}
