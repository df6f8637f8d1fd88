Bin1J
ף<