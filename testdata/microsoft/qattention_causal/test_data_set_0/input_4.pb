Bin4J
ף<