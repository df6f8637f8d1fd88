Bin3J
×#<