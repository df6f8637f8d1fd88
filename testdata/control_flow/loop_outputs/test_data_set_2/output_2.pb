BsumsJÂu=ëQ8>p=
?(\Ï?…›@­GiA