// Shape and layout: nothing is computed.
module {
  func.func @main(%arg0: tensor<?x3x4xf32, {dims = ["n", 3, 4]}>, %arg1: tensor<f32>) -> tensor<?x16xf32, {dims = ["n", 16]}> {
    %0 = graph.reshape %arg0 {shape = ["n", 12]} : tensor<?x3x4xf32, {dims = ["n", 3, 4]}> -> tensor<?x12xf32, {dims = ["n", 12]}>
    %1 = graph.transpose %0 {permutation = array<i64: 1, 0>} : tensor<?x12xf32, {dims = ["n", 12]}> -> tensor<12x?xf32, {dims = [12, "n"]}>
    %2 = graph.slice %1 {sizes = [6, "n"], starts = [11, 0], steps = array<i64: -2, 1>} : tensor<12x?xf32, {dims = [12, "n"]}> -> tensor<6x?xf32, {dims = [6, "n"]}>
    %3 = graph.pad reflect(%2, %arg1) {high = [1, 0], low = [1, 0]} : (tensor<6x?xf32, {dims = [6, "n"]}>, tensor<f32>) -> tensor<8x?xf32, {dims = [8, "n"]}>
    %4 = graph.concat(%3, %3) {axis = 0 : i64} : (tensor<8x?xf32, {dims = [8, "n"]}>, tensor<8x?xf32, {dims = [8, "n"]}>) -> tensor<16x?xf32, {dims = [16, "n"]}>
    %5 = graph.transpose %4 {permutation = array<i64: 1, 0>} : tensor<16x?xf32, {dims = [16, "n"]}> -> tensor<?x16xf32, {dims = ["n", 16]}>
    %6 = graph.broadcast %5 {shape = [2, 1, 1]} : tensor<?x16xf32, {dims = ["n", 16]}> -> tensor<2x?x16xf32, {dims = [2, "n", 16]}>
    return %5 : tensor<?x16xf32, {dims = ["n", 16]}>
  }
  func.func @layout(%arg0: tensor<1x8x16x16xf16, {order = [0, 2, 3, 1]}>) -> tensor<4x64xf32, {dims = ["2*b+1", 64]}> {
    %0 = graph.constant dense<0.000000e+00> : tensor<f32> -> tensor<f32>
    %1 = graph.broadcast %0 {shape = ["2*b+1", 64]} : tensor<f32> -> tensor<4x64xf32, {dims = ["2*b+1", 64]}>
    return %1 : tensor<4x64xf32, {dims = ["2*b+1", 64]}>
  }
}
