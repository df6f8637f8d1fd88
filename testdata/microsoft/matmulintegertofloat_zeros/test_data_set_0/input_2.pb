Bin2J
ף<