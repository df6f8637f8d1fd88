#layout = #hw.layout<reg = [[1], [128]], lane = [[2], [4], [8], [16], [32]], warp = [[64]]>
#loc1 = loc("model.onnx":1:1)
module {
  hw.kernel @compose target "sm_80" warps 2 grid [1] {
  ^bb0(%arg0: !llvm.ptr<1> loc("model.onnx":1:1), %arg1: !llvm.ptr<1> loc("model.onnx":1:1), %arg2: !llvm.ptr<1> loc("model.onnx":1:1), %arg3: !llvm.ptr<1> loc("model.onnx":1:1)):
    %0 = hw.iota 0 : <[256] x i32, #layout> loc(#loc1)
    %1 = hw.map(%0) : (!hw.tile<[256] x i32, #layout>) -> !hw.tile<[256] x i32, #layout> {
    ^bb0(%arg4: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c256_i32 = arith.constant 256 : i32 loc(#loc1)
      %11 = arith.muli %c0_i32, %c256_i32 : i32 loc(#loc1)
      %12 = arith.addi %11, %arg4 : i32 loc(#loc1)
      hw.yield %12 : i32 loc(#loc1)
    } loc(#loc1)
    %2 = hw.load %arg0[%1] : !llvm.ptr<1>, <[256] x i32, #layout> -> <[256] x i32, #layout> loc(#loc1)
    %3 = hw.iota 0 : <[256] x i32, #layout> loc(#loc1)
    %4 = hw.map(%3) : (!hw.tile<[256] x i32, #layout>) -> !hw.tile<[256] x i32, #layout> {
    ^bb0(%arg4: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c256_i32 = arith.constant 256 : i32 loc(#loc1)
      %11 = arith.muli %c0_i32, %c256_i32 : i32 loc(#loc1)
      %12 = arith.addi %11, %arg4 : i32 loc(#loc1)
      hw.yield %12 : i32 loc(#loc1)
    } loc(#loc1)
    %5 = hw.load %arg1[%4] : !llvm.ptr<1>, <[256] x i32, #layout> -> <[256] x i32, #layout> loc(#loc1)
    %6:2 = hw.scan 0(%2, %5) : (!hw.tile<[256] x i32, #layout>, !hw.tile<[256] x i32, #layout>) -> (!hw.tile<[256] x i32, #layout>, !hw.tile<[256] x i32, #layout>) {
    ^bb0(%arg4: i32 loc("model.onnx":1:1), %arg5: i32 loc("model.onnx":1:1), %arg6: i32 loc("model.onnx":1:1), %arg7: i32 loc("model.onnx":1:1)):
      %11 = arith.muli %arg6, %arg5 : i32 loc(#loc1)
      %12 = arith.muli %arg6, %arg4 : i32 loc(#loc1)
      %13 = arith.addi %11, %arg7 : i32 loc(#loc1)
      hw.yield %12, %13 : i32, i32 loc(#loc1)
    } loc(#loc1)
    %7 = hw.iota 0 : <[256] x i32, #layout> loc(#loc1)
    %8 = hw.map(%7) : (!hw.tile<[256] x i32, #layout>) -> !hw.tile<[256] x i32, #layout> {
    ^bb0(%arg4: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c256_i32 = arith.constant 256 : i32 loc(#loc1)
      %11 = arith.muli %c0_i32, %c256_i32 : i32 loc(#loc1)
      %12 = arith.addi %11, %arg4 : i32 loc(#loc1)
      hw.yield %12 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %6#0, %arg2[%8] : <[256] x i32, #layout>, !llvm.ptr<1>, <[256] x i32, #layout> loc(#loc1)
    %9 = hw.iota 0 : <[256] x i32, #layout> loc(#loc1)
    %10 = hw.map(%9) : (!hw.tile<[256] x i32, #layout>) -> !hw.tile<[256] x i32, #layout> {
    ^bb0(%arg4: i32 loc("model.onnx":1:1)):
      %c0_i32 = arith.constant 0 : i32 loc(#loc1)
      %c256_i32 = arith.constant 256 : i32 loc(#loc1)
      %11 = arith.muli %c0_i32, %c256_i32 : i32 loc(#loc1)
      %12 = arith.addi %11, %arg4 : i32 loc(#loc1)
      hw.yield %12 : i32 loc(#loc1)
    } loc(#loc1)
    hw.store %6#1, %arg3[%10] : <[256] x i32, #layout>, !llvm.ptr<1>, <[256] x i32, #layout> loc(#loc1)
    hw.return loc(#loc1)
  } loc(#loc1)
} loc(#loc)
#loc = loc(unknown)
