help_screens.o: src/cli/help_screens.cpp src/cli/help.h
src/cli/help.h:
