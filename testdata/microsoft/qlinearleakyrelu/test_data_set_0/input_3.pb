Bin3J
ף<