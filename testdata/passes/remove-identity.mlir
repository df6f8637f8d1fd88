// Operators that change nothing go; the slice backwards, the reversing transpose and the concatenation of two stay.
module {
  func.func @main(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) {
    %zero = graph.constant dense<0.0> : tensor<f32> -> tensor<f32>
    %0 = graph.elementwise exp(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("exp")
    %1 = graph.reshape %0 {shape = [4, 4]} : tensor<4x4xf32> -> tensor<4x4xf32> loc("reshape")
    %2 = graph.transpose %1 {permutation = array<i64: 0, 1>} : tensor<4x4xf32> -> tensor<4x4xf32> loc("transpose")
    %3 = graph.broadcast %2 {shape = [1, 4]} : tensor<4x4xf32> -> tensor<4x4xf32> loc("broadcast")
    %4 = graph.cast %3 : tensor<4x4xf32> -> tensor<4x4xf32> loc("cast")
    %5 = graph.slice %4 {starts = [0, 0], sizes = [4, 4], steps = array<i64: 1, 1>} : tensor<4x4xf32> -> tensor<4x4xf32> loc("slice")
    %6 = graph.pad constant(%5, %zero) {low = [0, 0], high = [0, 0]} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32> loc("pad")
    %7 = graph.concat(%6) {axis = 0} : (tensor<4x4xf32>) -> tensor<4x4xf32> loc("concat")
    %8 = graph.slice %7 {starts = [3, 0], sizes = [4, 4], steps = array<i64: -1, 1>} : tensor<4x4xf32> -> tensor<4x4xf32> loc("backwards")
    %9 = graph.transpose %7 {permutation = array<i64: 1, 0>} : tensor<4x4xf32> -> tensor<4x4xf32> loc("reversing")
    %10 = graph.concat(%7, %9) {axis = 0} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> loc("of two")
    return %8, %9, %10 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>
  }
}
